package supervise

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/mcp"
	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// wake starts the server again. The message that woke it stays in the client's stream until the new server has answered
// the handshake as the first one did.
func (s *supervisor) wake() {
	h := s.hib
	h.woken = time.Now()
	h.wakeBy = h.woken.Add(s.opts.WakeTimeout)
	h.why, h.up.held = "", true
	path, err := proc.LookPath(s.opts.Command[0], searchPath())
	if err == nil && s.scope.Leaf == nil {
		// An earlier try has dropped it.
		err = s.contain()
	}
	if err == nil {
		s.openEngine()
		_, err = s.launch(path)
	}
	if err != nil {
		// There is no tree: that is seen as if there had been one.
		h.why, s.clear = err.Error(), true
		s.machine.Step(h.woken, teardown.TreeEmpty)
		return
	}
	h.steps = h.talk.Replay()
	h.unproven = true
	s.replay()
}

// replay sends what is to be sent now. With nothing left, messages pass again.
func (s *supervisor) replay() {
	h := s.hib
	for len(h.steps) > 0 {
		h.up.put(h.steps[0].Line)
		if h.steps[0].AwaitID != "" {
			break
		}
		s.stepDone()
	}
	h.up.drain()
	if len(h.steps) == 0 && h.state.step(restored) == resume {
		s.resume()
	}
}

// stepDone goes on to the next step.
func (s *supervisor) stepDone() {
	h := s.hib
	h.down.put(h.steps[0].Tell)
	h.steps = h.steps[1:]
}

// answered takes the server's answer to the step that waits for it.
func (s *supervisor) answered(m mcp.Message) {
	h := s.hib
	if check := h.steps[0].Check; check != nil {
		if err := check(m); err != nil {
			s.wakeFailed(err.Error())
			return
		}
	}
	s.stepDone()
	s.replay()
}

// resume passes messages again.
func (s *supervisor) resume() {
	h := s.hib
	h.up.held, h.pause, h.retryAt = false, 0, time.Time{}
	h.last = time.Now()
	h.lookAt = h.last.Add(s.opts.Hibernate)
	s.record.Wakes++
	s.writeRecord(session.StateRunning)
	s.log.Info().Int("wakes", s.record.Wakes).Float64("wake_ms", milliseconds(h.last.Sub(h.woken))).Msg("server woken")
	if h.closing {
		s.step(teardown.StdinClosed, causeStdin)
	}
}

// wakeFailed ends the half-started tree. Who waits is answered once it is gone.
func (s *supervisor) wakeFailed(why string) {
	h := s.hib
	if h.state.step(failed) != giveUp {
		return
	}
	h.why = why
	s.machine.Step(time.Now(), teardown.MustEnd)
	s.cause = causeWake
	s.report(s.scope.Terminate(s.server))
	s.shutEngine()
	s.lookAgain()
}

// apologise answers the messages that wait for a server that cannot be had. The next one tries again, after a pause that
// grows with each failure.
func (s *supervisor) apologise() {
	h := s.hib
	h.pause = min(max(2*h.pause, firstPause), lastPause)
	h.retryAt = time.Now().Add(h.pause)
	s.log.Error().Str("why", h.why).Dur("next_try_in", h.pause).Msg("server could not be woken")
	for _, id := range h.talk.Pending() {
		// Passed on already, to a server that took the place of one that needs no handshake.
		h.down.put(mcp.ErrorReply(id, h.cannotWake()))
		h.talk.FromServer(mcp.Message{ID: id, Kind: mcp.Response, IsError: true}, time.Now())
	}
	h.refusing = true
	s.refuse()
}

func (h *hibernation) cannotWake() string {
	return "mcp-tether: the server could not be woken: " + h.why
}

// refuse answers what has arrived, to the end of the last message that has begun.
func (s *supervisor) refuse() {
	h := s.hib
	buf := make([]byte, bufferSize)
	for !h.up.ended && (readable(h.up.from.fd) > 0) {
		n, end := h.up.from.read(buf)
		h.up.ended = end
		err := h.refused.Feed(buf[:n], func(m mcp.Message) {
			if m.Kind != mcp.Request {
				s.log.Debug().Str("method", m.Method).Msg("dropped: the server could not be woken")
				return
			}
			h.down.put(mcp.ErrorReply(m.ID, h.cannotWake()))
		})
		if err != nil {
			s.tooLong(err)
			return
		}
	}
	h.refusing = h.refused.Partial()
	h.down.drain()
}

// flushRelay passes on what the server has still written, and answers for it whom it owes an answer. A client that is gone
// gets nothing; the wait for a slow one is bounded.
func (s *supervisor) flushRelay() {
	h := s.hib
	if h == nil || s.cause != causeServer && s.cause != causeStdin && s.cause != causeSignal && s.cause != causeTooLong {
		return
	}
	owed := s.cause == causeServer || s.cause == causeTooLong
	for limit := time.Now().Add(s.opts.EOFGrace); !h.down.broken; {
		if h.drained() {
			h.down.put(h.line)
			h.line = nil
			if owed {
				s.answerPending()
			}
			owed = false
			if len(h.down.rest) == 0 {
				return
			}
		}
		fd := []unix.PollFd{h.down.interest(), {Fd: 1}}
		n, err := unix.Poll(fd, int(max(time.Until(limit), 0).Milliseconds()))
		if n == 0 && err == nil || fd[1].Revents&unix.POLLERR != 0 {
			s.log.Warn().Msg("the client did not read the last of the server's output")
			return
		}
		h.down.move(fd[0].Revents)
	}
}

// answerPending: a request is never sent twice, so whoever asked a server that has ended gets an error. Of a message that
// is too long nobody has seen the end, so nobody knows whom it concerns.
func (s *supervisor) answerPending() {
	h := s.hib
	ids, why := h.talk.Pending(), fmt.Sprintf("the server ended (exit code %d) before it answered", s.code)
	if s.cause == causeTooLong {
		ids, why = append(ids, mcp.IDNull), h.why
	}
	if h.fromServer.Partial() && len(ids) > 0 {
		h.down.put([]byte("\n"))
	}
	for _, id := range ids {
		h.down.put(mcp.ErrorReply(id, "mcp-tether: "+why))
	}
}
