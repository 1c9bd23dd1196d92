package relay

// Kind says what has happened.
type Kind uint8

// The kinds of events.
const (
	// ClientWrote: the client has written something that a server must have, and there is none. Each Move reports it again
	// until it is acted upon.
	ClientWrote Kind = iota
	// ClientClosed, once: the client's stream has ended, or cannot be read any more.
	ClientClosed
	// Answered: a new server has answered for the first time.
	Answered
	// Restored: a new server has answered the handshake as the last one did, and messages pass again.
	Restored
	// Unasked: there is no handshake to repeat to a new server, and messages pass at once.
	Unasked
	// RestoreFailed: a new server cannot take the place of the last one. Text says why.
	RestoreFailed
	// Changed: no new server can take the place of the last one any more. Text says why.
	Changed
	// Raw: the client does not speak in lines, so what is said passes unread.
	Raw
	// TooLong: a message is longer than the limit. Text says which limit.
	TooLong
	// ServerClosed: the server has closed its standard output, so no answer can come any more.
	ServerClosed
	// Dropped: a line to a server that cannot be woken was dropped. Text is its method.
	Dropped
)

// Event is something that the caller of a relay must act on.
type Event struct {
	Kind Kind
	Text string
}
