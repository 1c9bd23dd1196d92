package relay

import (
	"bytes"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
)

// Relay passes lines between a client and one server after another. What the client wants of a server is kept in a mux, which
// gives it to the next one. Make it with New. It is not safe for concurrent use.
type Relay struct {
	// OnFirstWrite is called when a server has written for the first time, before the client can act on it; nil for nothing. works says
	// that the client has asked that server for work already.
	OnFirstWrite   func(works bool)
	client, server Peer
	mux            *mux.Mux
	stderr         stderr
	// max bounds a message, in bytes, and what waits for a server.
	max int64
	// used is when a message that matters last passed.
	used time.Time
	flow
	// large is when a long message last passed; zero if there is nothing to give back from that.
	large time.Time
	// happened are the events since the last call.
	happened []Event
}

// flow is what the streams have shown, and so what passes.
type flow struct {
	mode   mode
	speech speech
	// unproven says that a new server has not answered anything yet. One may write a line to its output, and end.
	unproven bool
	// closed says that the end of the client's stream was reported, final that the session ends, and spoke that a server
	// has written something.
	closed, final, spoke bool
}

// speech says how the client speaks.
type speech uint8

const (
	// speechUnknown: it has not said enough.
	speechUnknown speech = iota
	speechLines
	// speechRaw: not in lines, so what is said passes unread.
	speechRaw
)

// mode says what passes.
type mode uint8

const (
	// modePassing: lines go both ways.
	modePassing mode = iota
	// modeEnding: nothing of the client is read, and the server's requests do not reach it.
	modeEnding
	// modeServerless: there is no server; the client's messages wait.
	modeServerless
	// modeRestoring: a new server gets what the last one knew; the client's messages wait, but not its answers.
	modeRestoring
)

// only is the client.
const only mux.Client = 1

// New makes a relay for the client's two streams. A message of more than limit bytes is an event of kind TooLong.
func New(fromClient, toClient Stream, limit int64, now time.Time) *Relay {
	r := &Relay{max: limit, used: now, mux: mux.New()}
	r.mux.Alone = true
	r.mux.Attach(only)
	r.client = Peer{In: fromClient, Out: toClient, Ended: fromClient.fd < 0}
	r.server.Close()
	r.stderr.Close()
	return r
}

// Cache has messages that need no server answered from what load knows. What servers publish goes to save, see mux.Mux.
func (r *Relay) Cache(load func(initialize []byte) mux.Published, save func(initialize []byte, news *mux.Published)) {
	r.mux.Load, r.mux.Save = load, save
}

// Connect makes pipes to a new server and gives the child its ends of them. The caller calls closeTheirs once it has
// started the child, or failed to.
func (r *Relay) Connect(c *proc.Child) (closeTheirs func(), err error) {
	if closeTheirs, err = r.server.Connect(c); err != nil {
		return nil, err
	}
	r.stderr.last = Tail{}
	c.Stderr = r.stderr.theirs
	return closeTheirs, nil
}

// Where the descriptors are in what is polled.
const (
	fromClient = iota
	toClient
	fromServer
	toServer
	fromErrors
	toErrors
	streams
)

// Polled are the descriptors to wait for.
type Polled [streams]unix.PollFd

// Polls returns the descriptors to wait for.
func (r *Relay) Polls() (p Polled) {
	p[fromClient], p[toClient] = r.client.PollIn(r.mayReadClient()), r.client.PollOut()
	p[fromServer], p[toServer] = r.server.PollIn(!r.client.Full() && !r.client.Broken), r.server.PollOut()
	p[fromErrors], p[toErrors] = r.stderr.PollIn(r.stderr.Waiting() == 0), r.stderr.PollOut()
	return p
}

// mayReadClient reports whether more of the client is read now. A server that reads no more has the rest left in the stream, for
// the next one.
func (r *Relay) mayReadClient() bool {
	if r.mode == modeEnding || r.server.Broken {
		return false
	}
	return !r.server.Full() && r.mux.Held() <= r.max
}

// Move copies what poll has said can be copied, and returns what has happened.
func (r *Relay) Move(ready Polled) []Event {
	was := r.server.Ended
	r.copyStderr(ready)
	r.client.Flush()
	r.server.Flush()
	if ready[fromServer].Revents != 0 {
		r.readServer()
	}
	if ready[fromClient].Revents != 0 && r.mayReadClient() && r.client.Read() > 0 {
		r.onClientRead()
	}
	if r.client.Ended && !r.closed {
		r.closed = true
		if r.mode != modeEnding && r.client.Unfinished() > 0 { // Its last line lacks the newline.
			r.fromClient(r.client.TakeRest())
		}
		r.emit(ClientClosed, "")
	}
	r.client.Flush()
	r.server.Flush()
	if r.client.Large() || r.server.Large() {
		r.large = time.Now()
	}
	r.endStdin()
	if r.server.Ended && !was && (r.mode == modePassing || r.mode == modeRestoring) {
		r.emit(ServerClosed, "")
	}
	if r.mode == modeServerless && r.mux.Waits() && r.Drained() {
		r.emit(ClientWrote, "")
	}
	return r.events()
}

// speechOf tells by its first bytes how a client speaks. In a protocol without lines, such as LSP, messages begin with their length.
func speechOf(said []byte) speech {
	framing, said := []byte("content-length:"), bytes.ToLower(said)
	switch {
	case bytes.HasPrefix(said, framing):
		return speechRaw
	case bytes.HasPrefix(framing, said):
		return speechUnknown
	}
	return speechLines
}

// onClientRead acts on what was read of the client.
func (r *Relay) onClientRead() {
	if r.speech == speechUnknown {
		if r.speech = speechOf(r.client.inbox[r.client.next:]); r.speech == speechRaw {
			r.emit(Raw, "")
		}
	}
	switch r.speech {
	case speechUnknown:
		return
	case speechRaw:
		r.deliver(r.mux.Unread(r.client.TakeRest()))
		return
	case speechLines:
	}
	for line := r.client.Line(); line != nil; line = r.client.Line() {
		r.fromClient(line)
	}
	r.bound(&r.client)
}

func (r *Relay) fromClient(line []byte) {
	if !r.fits(len(line)) {
		return
	}
	r.deliver(r.mux.FromClient(only, line))
}

// readServer reads from the server once, and passes on whole lines. The end of a line that has begun may never come, and some
// clients give up the session at half a message.
func (r *Relay) readServer() (n int) {
	if n = r.server.Read(); n == 0 {
		return 0
	}
	if (!r.spoke || r.unproven) && r.OnFirstWrite != nil {
		r.OnFirstWrite(r.mux.Works())
	}
	r.spoke = true
	if r.speech == speechRaw {
		r.client.Put(r.server.TakeRest())
		return n
	}
	for line := r.server.Line(); line != nil; line = r.server.Line() {
		r.fromServer(line)
	}
	r.bound(&r.server)
	return n
}

func (r *Relay) fromServer(line []byte) {
	switch {
	case !r.fits(len(line)):
		return
	case r.stderr.guards && mcp.IsStray(line):
		r.stderr.stray(line)
		return
	}
	r.deliver(r.mux.FromServer(line))
	if r.unproven && r.mux.Answered() {
		r.unproven = false
		r.emit(Answered, "")
	}
	if r.mode == modeRestoring {
		r.lookAtRestore()
	}
}

// fits reports whether a line is not longer than allowed; that of the session's end does not count.
func (r *Relay) fits(size int) bool {
	if int64(size) <= r.max+1 || r.final {
		return true
	}
	r.tooLong(fmt.Sprintf("message too long: %d bytes, and %d are allowed", size-1, r.max))
	return false
}

// tooLong reports a message that is too long. A new server that writes one can only fail.
func (r *Relay) tooLong(why string) {
	if r.mode != modeRestoring {
		r.emit(TooLong, why)
		return
	}
	r.mode = modeEnding
	r.emit(RestoreFailed, why)
}

// bound drops a line that goes on for more bytes than are allowed.
func (r *Relay) bound(p *Peer) {
	if n := p.Unfinished(); int64(n) > r.max && !r.final {
		p.TakeRest()
		r.tooLong(fmt.Sprintf("message too long: at least %d bytes, and %d are allowed", n, r.max))
	}
}

func (r *Relay) deliver(outs []mux.Out) {
	for _, o := range outs {
		if o.To == mux.Server {
			r.server.Put(o.Line)
		} else {
			r.client.Put(o.Line)
		}
	}
	if r.mux.TakeUsed() {
		r.used = time.Now()
	}
}

// endStdin closes the server's standard input once it has all that the client has sent.
func (r *Relay) endStdin() {
	if r.server.Broken || r.client.Ended && (r.mode == modePassing || r.final) && r.server.Waiting() == 0 {
		r.server.Out.Close()
	}
}

// largeKept is how long larger buffers are kept after the last use.
const largeKept = time.Second

// ShrinkAt is when to call Shrink; zero where there is nothing to give back.
func (r *Relay) ShrinkAt() time.Time {
	if r.large.IsZero() {
		return time.Time{}
	}
	return r.large.Add(largeKept)
}

// Shrink gives back the memory that only long messages need.
func (r *Relay) Shrink() {
	r.large = time.Time{}
	r.client.Shrink()
	r.server.Shrink()
}

func (r *Relay) events() []Event {
	happened := r.happened
	r.happened = nil
	return happened
}

func (r *Relay) emit(kind Kind, text string) { r.happened = append(r.happened, Event{kind, text}) }

// Spoke reports whether any server has written anything.
func (r *Relay) Spoke() bool { return r.spoke }

// First is what tells most of the client: its handshake, or else the first line that waits for a server; nil if it has said
// nothing.
func (r *Relay) First() []byte { return r.mux.First() }

// Open reports whether a call of the client is open.
func (r *Relay) Open() bool { return r.mux.Calls() }

// Unproven reports whether a server that takes the place of another has not answered anything yet.
func (r *Relay) Unproven() bool { return r.unproven }

// Used is when a message that matters last passed. A ping does not, nor does a message without effect, such as an answer to no
// question.
func (r *Relay) Used() time.Time { return r.used }

// ClientWaits reports whether the client has written something that no server has. What is behind a read that failed is lost.
func (r *Relay) ClientWaits() bool {
	return r.mux.Waits() || r.client.Unfinished() > 0 || r.client.Queued() > 0
}

// MaySleep reports whether neither side would miss the server now. why says what is pending, if that is the reason.
func (r *Relay) MaySleep() (ok bool, why string) {
	if r.server.Waiting()+r.client.Waiting()+r.server.Unfinished()+r.server.Queued() > 0 || r.ClientWaits() {
		return false, ""
	}
	if why = r.Unrestorable(); why == "" {
		why = r.mux.Busy()
	}
	return why == "", why
}

// Unrestorable says why no other server could take the place of this one, if it ended now; "" if one could.
func (r *Relay) Unrestorable() string {
	if r.speech == speechRaw {
		return "the client does not speak in lines"
	}
	return ""
}

// ClientEnded reports whether the client's stream has ended, and the server has been sent all of it. Only for a pipe or a
// socket does poll(2) tell of such an end.
func (r *Relay) ClientEnded() bool { return r.client.Ended && r.server.Waiting() == 0 }

// Drained reports whether the client has everything that the last server wrote. No other server is started before that.
func (r *Relay) Drained() bool { return r.client.Broken || r.client.Waiting() == 0 }

// Told reports whether the client was told something in the place of a server.
func (r *Relay) Told() bool { return r.mux.Told() }
