package relay

import (
	"bytes"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp"
	"mcp-tether/internal/proc"
)

// Relay copies between the client's streams and those of one server after another. Make it with New. It is not safe for
// concurrent use.
type Relay struct {
	// Met is called when a server has written for the first time, before the client can act on it; nil for nothing. works says
	// that the client has asked that server for work already.
	Met  func(works bool)
	mode mode
	talk mcp.Conversation
	// up copies from the client to the server, down the other way; the scanners read along.
	up, down               pump
	fromClient, fromServer mcp.Scanner
	// judgesClient and judgesServer read single lines, while lines are judged.
	judgesClient, judgesServer mcp.Scanner
	// max bounds a message, in bytes, and what waits for a server.
	max int64
	// used is when a message that matters last passed, and bulk when much last passed at once; bulky says that there may be something
	// to give back from that.
	used, bulk time.Time
	bulky      bool
	// nextOfClient and nextOfServer hold the unfinished next line of the client and of the server, while lines are judged.
	nextOfClient, nextOfServer lines
	waiting                    backlog
	errs                       stderr
	// steps are what is left of the replay to a new server. settling says that the step Settle was reported to the
	// caller.
	steps    []mcp.Step
	settling bool
	// unproven says that a new server has not answered anything yet. One may write a line to its output, and end.
	unproven bool
	// tail reads on to the end of a message whose beginning went to a server that is gone. The message is answered with
	// refusal.
	tail    *mcp.Scanner
	refusal string
	// owed is the answer to the open calls of a server that has crashed, "" once they have it. It comes after everything
	// that the server has written.
	owed string
	// closed says that the end of the client's stream was reported, final that the session ends, and spoke that a server
	// has written something.
	closed, final, spoke bool
	// known is what is known of servers that have not been started; nil where each server is. told: see Told.
	known *Published
	told  bool
	// happened are the events since the last call.
	happened []Event
}

// mode says what passes.
type mode uint8

const (
	// modePassing: bytes go both ways as they are.
	modePassing mode = iota
	// modeEnding: nothing goes to the server any more, and its requests do not reach the client.
	modeEnding
	// modeServerless: there is no server; the client's messages wait.
	modeServerless
	// modeRestoring: a new server gets what the last one knew; the client's messages wait, but not its answers.
	modeRestoring
)

// New makes a relay for the client's two streams. A message of more than limit bytes is an event of kind TooLong.
func New(fromClient, toClient Stream, limit int64, now time.Time) *Relay {
	r := &Relay{max: limit, used: now, fromClient: mcp.Scanner{Max: limit}, fromServer: mcp.Scanner{Max: limit}}
	r.up.from, r.up.to, r.up.ended, r.up.tap = fromClient, closedStream(), fromClient.fd < 0, r.tapClient
	r.down.from, r.down.to, r.down.tap = closedStream(), toClient, r.tapServer
	r.errs.from, r.errs.to, r.errs.ended = closedStream(), closedStream(), true
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
		in.Close()
		_ = unix.Close(theirIn)
		return nil, err
	}
	r.up.to = in
	// A process that outlives the last server may still hold the other end.
	r.down.from.Close()
	r.down.from, r.down.ended, r.up.sent = out, false, 0
	r.nextOfServer = lines{}
	r.errs.last = Tail{}
	c.Stdin, c.Stdout, c.Stderr = theirIn, theirOut, r.errs.theirs
	return func() { _ = unix.Close(theirIn); _ = unix.Close(theirOut) }, nil
}

// Polls returns the descriptors to wait for: the client's side first, standard error last.
func (r *Relay) Polls() [3]unix.PollFd {
	up, down := r.up.interest(), r.down.interest()
	if r.mode == modeEnding && !r.final || r.owed != "" {
		up = unix.PollFd{Fd: -1}
	}
	return [3]unix.PollFd{up, down, r.errs.interest()}
}

// Move copies what poll has said can be copied, and returns what has happened.
func (r *Relay) Move(ready [3]unix.PollFd) []Event {
	was := r.down.ended
	r.copyStderr(ready[2].Revents)
	up, down := r.up.move(ready[0].Revents), r.down.move(ready[1].Revents)
	if r.moveBulk(); up && r.up.large || down && r.down.large || len(r.up.pending)+len(r.down.pending) > 2*bulkBuffer {
		r.bulk, r.bulky = time.Now(), true
	}
	if r.up.ended && !r.closed {
		r.closed = true
		r.emit(ClientClosed, "")
	}
	if r.up.ended && len(r.nextOfClient.begun) > 0 && r.mode == modePassing {
		// Its last line lacks the newline.
		r.up.put(r.clientLine(r.nextOfClient.take()))
		r.up.drain()
	}
	r.endStdin()
	if r.down.broken || r.down.ended && r.mode == modeServerless {
		// While there is a server, a stream that has only ended stays open: it would take the close for the end of its gateway.
		r.down.from.Close()
	}
	if r.down.ended && !was && (r.mode == modePassing || r.mode == modeRestoring) {
		r.emit(ServerClosed, "")
	}
	r.publish()
	switch r.mode {
	case modeServerless:
		r.answerForTheDead()
		r.tellOfClient()
	case modeRestoring:
		r.lookForRoots()
	}
	return r.events()
}

// endStdin closes the server's standard input once it has all that the client has sent.
func (r *Relay) endStdin() {
	if r.up.done() && !r.queues() {
		r.up.to.Close()
	}
}

// bulkRounds bounds how often busy streams are copied before other streams are looked at.
const bulkRounds = 8

// moveBulk goes on with streams that are busy, as long as nothing has happened that the caller must know.
func (r *Relay) moveBulk() {
	if !r.up.grown && !r.down.grown {
		return
	}
	for range bulkRounds {
		if r.mode != modePassing || r.owed != "" || len(r.happened) > 0 {
			break
		}
		if up, down := r.up.again(), r.down.again(); !up && !down {
			break
		}
	}
}

// bulkKept is how long larger buffers and pipes are kept after the last use.
const bulkKept = time.Second

// ShrinkAt is when to call Shrink; zero where there is nothing to give back.
func (r *Relay) ShrinkAt() time.Time {
	if !r.bulky {
		return time.Time{}
	}
	return r.bulk.Add(bulkKept)
}

// Shrink gives back the larger buffers and pipes of streams that were busy. A stream gets them again when it needs
// them.
func (r *Relay) Shrink() {
	r.bulky = false
	r.up.shrink()
	r.down.shrink()
	r.errs.shrink()
	r.fromClient.Shrink()
	r.fromServer.Shrink()
}

// tellOfClient reports what the client wants while there is no server. It repeats ClientWrote until that is acted upon.
func (r *Relay) tellOfClient() {
	if r.up.ended {
		if last := r.nextOfClient.take(); len(last) > 0 {
			r.queue(last)
		}
	}
	if r.owed == "" && r.waiting.left > 0 && r.Drained() {
		r.emit(ClientWrote, "")
	}
}

// events returns the events since the last call.
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
func (r *Relay) First() []byte {
	if request := r.talk.Greeting(); request != nil {
		return request
	}
	line, _, _ := bytes.Cut(r.waiting.lines, []byte("\n"))
	return line
}

// Open reports whether a call of the client is open.
func (r *Relay) Open() bool { return len(r.talk.Pending(true)) > 0 }

// Over reports whether a server that is gone has left nothing to be said to the client.
func (r *Relay) Over() bool { return r.owed == "" && r.Drained() }

// Unproven reports whether a server that takes the place of another has not answered anything yet.
func (r *Relay) Unproven() bool { return r.unproven }

// Used is when a message that matters last passed, see mcp.Conversation.
func (r *Relay) Used() time.Time { return r.used }

// Waiting reports whether the client has written something that no server has. What is behind a read that failed is lost.
func (r *Relay) Waiting() bool {
	return r.waiting.left+len(r.nextOfClient.begun) > 0 || !r.up.ended && readable(r.up.from.fd) > 0
}

// MaySleep reports whether neither side would miss the server now. why says what is pending, if that is the reason.
func (r *Relay) MaySleep(now time.Time) (ok bool, why string) {
	quiet := len(r.up.pending)+len(r.down.pending)+len(r.nextOfServer.begun) == 0 && !r.fromClient.Partial() && !r.fromServer.Partial() &&
		!r.Waiting() && readable(r.down.from.fd) == 0
	if !quiet {
		return false, ""
	}
	why = r.talk.MaySleep(now)
	return why == "", why
}

// Sent is how much the present server was sent, in bytes.
func (r *Relay) Sent() int64 { return r.up.sent }

// Park keeps the conversation as it is, for a server that takes up where the last one stopped. unread is what that one has not
// acted upon. What that one has written is still passed on.
func (r *Relay) Park(unread []byte) {
	r.up.to.Close()
	r.up.pending = append(unread[:len(unread):len(unread)], r.up.pending...)
	r.up.held, r.up.broken = true, false
}

// Unpark goes on with the server that Connect has been called for.
func (r *Relay) Unpark() {
	r.up.held = false
	r.up.drain()
}

// EndServer closes the server's standard input. From now on the client's messages stay in its stream.
func (r *Relay) EndServer() {
	r.mode = modeEnding
	r.up.to.Close()
}

// Disconnect forgets a server that is gone. What it has written is still passed on, and the client is notified that the
// server's requests need no answer.
func (r *Relay) Disconnect() {
	r.mode = modeServerless
	r.up.to.Close()
	if r.down.done() {
		r.down.from.Close()
	}
	if r.owed == "" {
		r.forgetServer()
	}
}

func (r *Relay) forgetServer() {
	if r.Drained() { // Otherwise the rest of a line that has begun is still to be read.
		r.down.put(r.lastLine(true))
		r.nextOfServer = lines{}
	}
	if r.fromServer.Partial() { // The client has half of a line.
		r.down.put([]byte("\n"))
	}
	r.up.broken, r.errs.straying = false, false
	for _, id := range r.talk.ServerGone() {
		r.down.put(append(mcp.Cancelled(id, "the server has ended"), '\n'))
	}
	if r.fromClient.Partial() {
		// Half of a message went to a server that failed: the other half is read for the id, and the message answered.
		r.tail = &mcp.Scanner{}
		*r.tail = r.fromClient
	}
	r.fromClient, r.fromServer = mcp.Scanner{Max: r.max}, mcp.Scanner{Max: r.max}
	r.up.free()
	if len(r.down.pending) == 0 {
		r.down.free()
	}
}

// Finish says that the session is ending. What passed still passes, and a message that is too long is reported no more. A
// server that is not ready gets nothing any more.
func (r *Relay) Finish() {
	r.final = true
	if r.mode != modePassing {
		r.mode, r.up.held = modeEnding, true
	}
	r.endStdin()
}

// Drained reports whether the client has everything that the last server wrote. No other server is started before that.
func (r *Relay) Drained() bool {
	return r.down.done() || len(r.down.pending) == 0 && readable(r.down.from.fd) == 0
}

// readable is the number of bytes that can be read now.
func readable(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// tapClient reads along with what the client sends, and returns what passes.
func (r *Relay) tapClient(b []byte) []byte {
	if r.tail != nil {
		b = r.answerRest(b)
	}
	if r.queues() || len(r.nextOfClient.begun) > 0 || r.mode == modePassing && r.talk.Mixed() {
		return r.clientLines(b)
	}
	r.observeClient(b)
	return b
}

// observeClient reports to the conversation what the server is sent.
func (r *Relay) observeClient(b []byte) {
	now := time.Now()
	r.checkLength(r.fromClient.Feed(b, func(m mcp.Message) { r.use(r.talk.FromClient(m, now), now) }))
}

// tapServer reads along with what the server sends, and returns what passes.
func (r *Relay) tapServer(b []byte) []byte {
	if (!r.spoke || r.unproven) && r.Met != nil {
		r.Met(r.talk.Works())
	}
	r.spoke = true
	return r.wholeLines(r.judgeServer(b))
}

// observeServer reports to the conversation what the server has sent.
func (r *Relay) observeServer(b []byte) {
	now := time.Now()
	r.checkLength(r.fromServer.Feed(b, func(m mcp.Message) {
		r.prove(m.Kind == mcp.Response || m.Method == mcp.MethodAcknowledged)
		r.use(r.talk.FromServer(m, now), now)
	}))
}

// prove takes note of the first answer of a new server, also to a subscription.
func (r *Relay) prove(answers bool) {
	if r.unproven && answers {
		r.unproven = false
		r.emit(Answered, "")
	}
}

func (r *Relay) observeMessage(m mcp.Message) {
	now := time.Now()
	r.use(r.talk.FromClient(m, now), now)
}

func (r *Relay) use(matters bool, now time.Time) {
	if matters {
		r.used = now
	}
}

// checkLength turns the error of a scanner, which is about the length of a message, into an event.
func (r *Relay) checkLength(err error) {
	if err != nil && !r.final {
		r.emit(TooLong, err.Error())
	}
}
