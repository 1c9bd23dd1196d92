package relay

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/mcp"
	"mcp-tether/proc"
)

// Relay copies between the client's streams and those of one server after another. Make it with New. It is not safe for
// concurrent use.
type Relay struct {
	mode mode
	talk mcp.Conversation
	// up copies from the client to the server, down the other way; the scanners read along.
	up, down               pump
	fromClient, fromServer mcp.Scanner
	// max bounds a message, in bytes.
	max int64
	// moved is when the last byte moved.
	moved time.Time
	// line is the unfinished line of a server that is read line by line.
	line []byte
	// skipping drops what is left of a line that was too long to be judged.
	skipping bool
	// steps are what is left of the replay to a new server.
	steps []mcp.Step
	// unproven says that a new server has not written anything yet.
	unproven bool
	// refusing reads on, with refused, to the end of a message that is answered with an error; refusal says why.
	refusing bool
	refused  mcp.Scanner
	refusal  string
	// happened are the events since the last call.
	happened []Event
}

// mode says what passes.
type mode uint8

const (
	// passing: bytes go both ways as they are.
	passing mode = iota
	// ending: nothing goes to the server any more, and its requests do not reach the client.
	ending
	// serverless: there is no server; the client's next message stays in its stream.
	serverless
	// restoring: a new server is told what the last one knew; the client's messages stay in their stream.
	restoring
	// final: the session ends. Bytes pass, and nothing is judged any more.
	final
)

// New makes a relay for the client's two streams. A message of more than limit bytes is an event of kind TooLong.
func New(fromClient, toClient Stream, limit int64, now time.Time) *Relay {
	r := &Relay{max: limit, moved: now}
	r.fromClient.Max, r.fromServer.Max, r.refused.Max = limit, limit, limit
	r.up = pump{from: fromClient, to: closedStream(), ended: fromClient.fd < 0, tap: r.tapClient}
	r.down = pump{from: closedStream(), to: toClient, tap: r.tapServer}
	return r
}

// Connect makes pipes to a new server and gives the child its ends of them. The caller calls closeTheirs once it has
// started the child, or failed to.
func (r *Relay) Connect(c *proc.Child) (closeTheirs func(), err error) {
	in, theirIn, err := pipe(false)
	if err != nil {
		return nil, err
	}
	out, theirOut, err := pipe(true)
	if err != nil {
		in.close()
		_ = unix.Close(theirIn)
		return nil, err
	}
	// What was left for the last server is not for this one; what was left for the client is.
	r.up.to, r.up.broken, r.up.rest = in, false, nil
	// A process that outlives the last server may still hold the other end.
	r.down.from.close()
	r.down.from, r.down.ended = out, false
	c.Stdin, c.Stdout = theirIn, theirOut
	return func() { _ = unix.Close(theirIn); _ = unix.Close(theirOut) }, nil
}

// Polls returns the descriptors to wait for: the client's side first. With listen false, and without a server, it does not
// wait for the client's next message.
func (r *Relay) Polls(listen bool) [2]unix.PollFd {
	up, down := r.up.interest(), r.down.interest()
	switch {
	case r.mode == serverless && listen && !r.up.ended && r.drained():
		up = unix.PollFd{Fd: int32(r.up.from.fd), Events: unix.POLLIN}
	case r.mode == serverless, r.mode == ending:
		up = unix.PollFd{Fd: -1}
	}
	return [2]unix.PollFd{up, down}
}

// Move copies what poll has said can be copied, and returns what has happened.
func (r *Relay) Move(ready [2]unix.PollFd, now time.Time) []Event {
	if r.mode == serverless && ready[0].Revents != 0 {
		r.clientReady()
	} else if r.up.move(ready[0].Revents) {
		r.moved = now
	}
	if r.down.move(ready[1].Revents) {
		r.moved = now
	}
	if r.up.done() {
		r.up.to.close()
	}
	if r.down.done() {
		r.down.from.close()
	}
	return r.events()
}

// events returns the events since the last call.
func (r *Relay) events() []Event {
	happened := r.happened
	r.happened = nil
	return happened
}

func (r *Relay) emit(kind Kind, text string) { r.happened = append(r.happened, Event{kind, text}) }

// clientReady acts on a client that has written, or closed its stream, while there is no server.
func (r *Relay) clientReady() {
	switch {
	case readable(r.up.from.fd) == 0:
		r.up.ended = true
		r.emit(ClientClosed, "")
	case r.refusing:
		r.refuse()
	default:
		r.emit(ClientWrote, "")
	}
}

// Moved is when the last byte moved.
func (r *Relay) Moved() time.Time { return r.moved }

// Waiting reports whether the client has written something that was not read yet.
func (r *Relay) Waiting() bool { return readable(r.up.from.fd) > 0 }

// MaySleep reports whether neither side would miss the server now. why says what is pending, if that is the reason.
func (r *Relay) MaySleep(now time.Time) (ok bool, why string) {
	quiet := len(r.up.rest)+len(r.down.rest) == 0 && !r.fromClient.Partial() && !r.fromServer.Partial() &&
		!r.Waiting() && readable(r.down.from.fd) == 0
	if !quiet {
		return false, ""
	}
	why = r.talk.MaySleep(now)
	return why == "", why
}

// EndServer closes the server's standard input. From now on the client's messages stay in its stream.
func (r *Relay) EndServer() {
	r.mode = ending
	r.up.to.close()
}

// Disconnect forgets a server that is gone. What it has written is still passed on.
func (r *Relay) Disconnect() {
	r.mode = serverless
	r.up.to.close()
	r.talk.ServerGone()
	if r.fromClient.Partial() {
		// Half of a message went to a server that failed: the other half is read for its id, and answered.
		r.refused = r.fromClient
	}
	r.fromClient, r.fromServer = mcp.Scanner{Max: r.max}, mcp.Scanner{Max: r.max}
	r.line, r.skipping, r.steps = nil, false, nil
	r.up.free()
	if len(r.down.rest) == 0 {
		r.down.free()
	}
}

// Finish lets all bytes pass from now on, because the session is ending.
func (r *Relay) Finish() { r.mode = final }

// drained reports whether the client has everything that the last server wrote. No other server is started before.
func (r *Relay) drained() bool {
	return r.down.done() || len(r.down.rest) == 0 && readable(r.down.from.fd) == 0
}

// readable is the number of bytes that can be read now.
func readable(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// tapClient reads along with what the client sends.
func (r *Relay) tapClient(b []byte) []byte {
	now := time.Now()
	err := r.fromClient.Feed(b, func(m mcp.Message) { r.talk.FromClient(m, now) })
	r.checkLength(err)
	return b
}

// tapServer reads along with what the server sends.
func (r *Relay) tapServer(b []byte) []byte {
	if r.unproven {
		r.unproven = false
		r.emit(Answered, "")
	}
	if r.byLine() || r.skipping || len(r.line) > 0 {
		return r.wholeLines(b)
	}
	r.note(b)
	return b
}

// note tells the conversation what the client is sent.
func (r *Relay) note(b []byte) {
	now := time.Now()
	r.checkLength(r.fromServer.Feed(b, func(m mcp.Message) { r.talk.FromServer(m, now) }))
}

// checkLength turns the error of a scanner, which is about the length of a message, into an event.
func (r *Relay) checkLength(err error) {
	if err != nil && r.mode != final {
		r.emit(TooLong, err.Error())
	}
}
