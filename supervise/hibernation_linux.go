package supervise

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/mcp"
	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// With --hibernate the supervisor stands between the client and the server: it passes bytes on unchanged, and reads them
// as far as it must know whether anything is pending. After a time without any it ends the server's tree as it would at
// the end of the session, but keeps the client's streams. The next message starts the server again.

// hibernation is the relay and what is known of the conversation on it.
type hibernation struct {
	state doze
	talk  mcp.Conversation
	// up is from the client to the server, down the other way; the scanners read along.
	up, down               pump
	fromClient, fromServer mcp.Scanner
	// last is when the last byte moved, lookAt when to ask next whether the server may sleep.
	last, lookAt time.Time
	// line is the unfinished line of a server that is falling asleep or waking: then whole lines are passed on, or not.
	line []byte
	// steps are what is left of the handshake's replay, wakeBy is when it must be through, and woken when it began.
	steps         []mcp.Step
	wakeBy, woken time.Time
	// unproven says that a woken server, which there was nothing to ask, has not written anything yet.
	unproven bool
	// pause grows with each failed wake; retryAt ends it, and why says what failed.
	pause   time.Duration
	retryAt time.Time
	why     string
	// refusing reads on to the end of a message that is answered with an error.
	refusing bool
	refused  mcp.Scanner
	// closing says that the client has closed its end.
	closing bool
}

// The causes of an end that only a relay knows.
const (
	causeIdle    = "idle" // of the tree; the session goes on
	causeWake    = "wake-failed"
	causeTooLong = "message-too-long"
)

// The pause between two failed wakes.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// openRelay prepares the relay.
func (s *supervisor) openRelay() {
	if s.opts.Hibernate <= 0 {
		return
	}
	if s.hand.Terminal {
		s.log.Warn().Msg("--hibernate has no effect on a terminal")
		return
	}
	h := &hibernation{last: time.Now()}
	h.lookAt = h.last.Add(s.opts.Hibernate)
	h.fromClient.Max, h.fromServer.Max, h.refused.Max = s.opts.MaxMessage, s.opts.MaxMessage, s.opts.MaxMessage
	h.up.from, h.down.to = inheritedStream(0, false), inheritedStream(1, true)
	h.up.to, h.down.from = closedStream(), closedStream()
	h.up.ended = h.up.from.fd < 0
	h.up.tap = s.tapClient
	h.down.tap = s.tapServer
	s.hib = h
}

// connect gives the child pipes of ours in place of the client's streams.
func (h *hibernation) connect(c *proc.Child) (closeTheirs func(), err error) {
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
	h.up.to, h.up.broken, h.up.rest = in, false, nil
	h.down.from, h.down.ended = out, false
	c.Stdin, c.Stdout = theirIn, theirOut
	return func() { _ = unix.Close(theirIn); _ = unix.Close(theirOut) }, nil
}

// polls are what the relay waits for now: the client's side first.
func (h *hibernation) polls(now time.Time) [2]unix.PollFd {
	up, down := h.up.interest(), h.down.interest()
	if h.state == asleep || h.state == falling {
		up = unix.PollFd{Fd: -1}
	}
	if h.state == asleep && !h.up.ended && !now.Before(h.retryAt) && h.drained() {
		up = unix.PollFd{Fd: int32(h.up.from.fd), Events: unix.POLLIN}
	}
	return [2]unix.PollFd{up, down}
}

// drained reports whether the client has all that the last server wrote. Before that no other is started.
func (h *hibernation) drained() bool {
	return h.down.done() || len(h.down.rest) == 0 && readable(h.down.from.fd) == 0
}

// due is when the relay has something to do without any input; zero when never.
func (h *hibernation) due() time.Time {
	if h == nil {
		return time.Time{}
	}
	switch h.state {
	case awake:
		return h.lookAt
	case waking:
		return h.wakeBy
	case asleep:
		return h.retryAt
	}
	return time.Time{}
}

// relay moves what can be moved.
func (s *supervisor) relay(ready [2]unix.PollFd) {
	h := s.hib
	if h.state == asleep && ready[0].Revents != 0 {
		s.onMessage()
	} else if h.up.move(ready[0].Revents) {
		h.last = time.Now()
	}
	if h.down.move(ready[1].Revents) {
		h.last = time.Now()
	}
	if h.up.done() {
		h.up.to.close()
	}
	if h.down.done() {
		h.down.from.close()
	}
}

// onMessage: the client has written, or closed, while the server sleeps.
func (s *supervisor) onMessage() {
	h := s.hib
	switch n := readable(h.up.from.fd); {
	case n == 0:
		h.up.ended = true
		s.clientClosed()
	case h.refusing:
		s.refuse()
	case h.state.step(message) == start:
		s.wake()
	}
}

// readable is how many bytes wait to be read.
func readable(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// clientClosed: nobody will send any more. What was sent before is still answered.
func (s *supervisor) clientClosed() {
	h := s.hib
	h.closing = true
	switch h.state {
	case awake, over:
		s.step(teardown.StdinClosed, causeStdin)
	case asleep:
		if readable(h.up.from.fd) == 0 {
			s.end(causeStdin)
		}
	}
}

// tapClient reads along with what the client sends.
func (s *supervisor) tapClient(b []byte) []byte {
	h, now := s.hib, time.Now()
	err := h.fromClient.Feed(b, func(m mcp.Message) { h.talk.FromClient(m, now) })
	if err != nil {
		s.tooLong(err)
	}
	return b
}

// tapServer reads along with what the server sends. While it is falling asleep or waking, whole lines are looked at
// before they are passed on.
func (s *supervisor) tapServer(b []byte) []byte {
	s.hib.unproven = false
	if s.hib.byLine() {
		return s.wholeLines(b)
	}
	s.note(b)
	return b
}

// note has the conversation take note of what the client is sent.
func (s *supervisor) note(b []byte) {
	h, now := s.hib, time.Now()
	if err := h.fromServer.Feed(b, func(m mcp.Message) { h.talk.FromServer(m, now) }); err != nil {
		s.tooLong(err)
	}
}

func (s *supervisor) tooLong(err error) {
	if s.hib.state == over {
		return
	}
	s.log.Error().Err(err).Msg("message is longer than --max-message")
	s.hib.why = err.Error() + " (--max-message)"
	s.end(causeTooLong)
}

// byLine reports whether the server is one of which not every line is passed on.
func (h *hibernation) byLine() bool {
	return h.state == falling || h.state == asleep || h.state == waking
}

// wholeLines passes on the whole lines but those that are ours.
func (s *supervisor) wholeLines(b []byte) []byte {
	h := s.hib
	var out []byte
	h.line = append(h.line, b...)
	for h.byLine() {
		i := bytes.IndexByte(h.line, '\n')
		if i < 0 {
			break
		}
		line := h.line[:i+1]
		h.line = h.line[i+1:]
		if s.passes(line) {
			s.note(line)
			out = append(out, line...)
		}
	}
	if h.byLine() {
		if int64(len(h.line)) > s.opts.MaxMessage {
			h.line = nil
			s.wakeFailed("its answer is longer than --max-message")
		}
		return out
	}
	// The rest was written by a server that is awake again.
	s.note(h.line)
	out, h.line = append(out, h.line...), nil
	return out
}

// passes decides about a line of a server that is falling asleep or waking.
func (s *supervisor) passes(line []byte) bool {
	h := s.hib
	one := mcp.Scanner{Max: s.opts.MaxMessage, Keep: len(line)}
	pass := true
	_ = one.Feed(line, func(m mcp.Message) {
		switch {
		case !m.Line:
		case h.state != waking && m.Kind == mcp.Request:
			// Its answer would reach another server, which gives out the same ids again.
			pass = false
			s.log.Debug().Str("method", m.Method).Msg("request of a server that is being put to sleep is not passed on")
		case h.state == waking && m.Kind == mcp.Response && len(h.steps) > 0 && m.ID == h.steps[0].AwaitID:
			pass = false
			s.answered(m)
		}
	})
	return pass
}

// mayFall asks whether the server may be put to sleep now, and does it.
func (s *supervisor) mayFall(now time.Time) {
	h := s.hib
	h.lookAt = h.last.Add(s.opts.Hibernate)
	if now.Before(h.lookAt) {
		return
	}
	h.lookAt = now.Add(s.opts.Hibernate)
	quiet := s.server > 0 && s.machine.State == teardown.Running && len(h.up.rest)+len(h.down.rest) == 0 &&
		!h.fromClient.Partial() && !h.fromServer.Partial() && readable(h.up.from.fd) == 0 && readable(h.down.from.fd) == 0
	if !quiet {
		return
	}
	if why := h.talk.MaySleep(now); why != "" {
		s.log.Debug().Str("why", why).Msg("idle, but kept awake")
		return
	}
	if h.state.step(idle) == letSleep {
		h.up.to.close()
		s.step(teardown.StdinClosed, causeIdle)
	}
}

// onRelayTime acts on what the relay has waited for.
func (s *supervisor) onRelayTime(now time.Time) {
	h := s.hib
	if due := h.due(); due.IsZero() || now.Before(due) {
		return
	}
	switch h.state {
	case awake:
		s.mayFall(now)
	case waking:
		s.wakeFailed(fmt.Sprintf("it did not answer the handshake within %v (--wake-timeout)", s.opts.WakeTimeout))
	case asleep:
		h.retryAt = time.Time{}
	}
}

// sleepNoMore: the session is ending for good, whatever the server was doing.
func (s *supervisor) sleepNoMore(cause string) {
	h := s.hib
	was := h.state
	if h.state.step(mustEnd) != end || was == awake {
		return
	}
	// The tree was being ended for a nap, or there is none: the cause of the end is another one now.
	s.cause = cause
	if was == asleep && s.bySignal != 0 {
		s.code = 128 + int(s.bySignal)
	}
}

// rests reports whether the session goes on although no process of it is left.
func (s *supervisor) rests() bool {
	h := s.hib
	if h == nil {
		return false
	}
	if h.state == awake && h.unproven && s.cause == causeServer {
		h.state = waking // it never came up
	}
	if h.state == waking && h.why == "" {
		h.why = fmt.Sprintf("it exited with code %d before it had answered anything", s.code)
	}
	switch h.state.step(treeGone) {
	case lieDown, apologise:
		s.lieDown()
	case carryOn:
		if h.state == over {
			return false
		}
		// Somebody who is none of the session's has ended: a helper that was kept.
		s.machine = teardown.Machine{Grace: s.machine.Grace}
		return true
	default:
		return false
	}
	if h.why != "" {
		s.apologise()
	}
	if h.closing && readable(h.up.from.fd) == 0 {
		s.end(causeStdin)
	}
	return true
}

// lieDown forgets the tree that is gone. What it has written is still passed on.
func (s *supervisor) lieDown() {
	h := s.hib
	if s.engine != nil {
		s.containersLeft = s.closeEngine().err != nil || s.containersLeft
		s.engine, s.scope.Helpers = nil, nil
	}
	h.up.to.close()
	h.talk.ServerGone()
	if h.fromClient.Partial() {
		// Half of a message went to a server that never came up: the other half is read for its id, and answered.
		h.refused = h.fromClient
	}
	h.fromClient, h.fromServer = mcp.Scanner{Max: s.opts.MaxMessage}, mcp.Scanner{Max: s.opts.MaxMessage}
	h.line, h.steps = nil, nil
	h.up.free()
	if len(h.down.rest) == 0 {
		h.down.free()
	}
	s.machine = teardown.Machine{Grace: s.machine.Grace}
	s.scope.Forget()
	s.clear, s.cause, s.bySignal, s.server, s.code = false, "", 0, 0, 0
	s.retry, s.retryAt = 0, time.Time{}
	s.record.Server = proc.ID{}
	if h.why == "" {
		s.record.Sleeps++
		s.log.Info().Int("sleeps", s.record.Sleeps).Msg("server sleeps")
	}
	s.writeRecord(session.StateAsleep)
	debug.FreeOSMemory()
}
