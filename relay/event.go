package relay

// Kind is what an Event tells.
type Kind uint8

// The kinds of events.
const (
	// ClientWrote: the client has written while there is no server. The message waits in the client's stream.
	ClientWrote Kind = iota
	// ClientClosed: the client has closed its stream while there is no server.
	ClientClosed
	// Answered: a new server has written for the first time.
	Answered
	// Restored: a new server has answered the handshake as the last one did, and messages pass again.
	Restored
	// Unasked: there was nothing to ask a new server, and messages pass again.
	Unasked
	// RestoreFailed: a new server cannot take the place of the last one. Text says why.
	RestoreFailed
	// TooLong: a message is longer than the limit. Text says which limit.
	TooLong
	// Withheld: a request of a server that is being ended was not passed on. Text is its method.
	Withheld
	// Dropped: a notification for a server that cannot be had was dropped. Text is its method.
	Dropped
)

// Event is something that the caller of a relay has to know.
type Event struct {
	Kind Kind
	Text string
}
