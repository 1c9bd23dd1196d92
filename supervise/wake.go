package supervise

import (
	"fmt"
	"time"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/teardown"
)

// The first and the longest pause before a server is started again.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// backOff doubles a pause, and returns its end.
func backOff(pause *time.Duration, now time.Time) time.Time {
	*pause = min(max(2**pause, firstPause), lastPause)
	return now.Add(*pause)
}

// wake starts the server again. The client's requests wait until the new server has answered the handshake as the first
// one did.
func (s *Session) wake() {
	h := s.hib
	h.began, h.why = time.Now(), ""
	h.wakeBy, h.restAt = h.began.Add(s.opts.WakeTimeout), time.Time{}
	path, err := proc.LookPath(s.opts.Command[0], searchPath())
	if err == nil {
		err = s.startTree(path)
	}
	if err != nil {
		h.why = err.Error()
		s.changePhase(onUnstarted)
		return
	}
	s.onRelay(h.relay.Restore())
}

// resume: messages pass again.
func (s *Session) resume() {
	h, now := s.hib, time.Now()
	h.retryAt = time.Time{}
	h.proven()
	h.lookAt = h.idleAfter(now)
	if took := milliseconds(now.Sub(h.began)); h.restarts {
		s.record.Restarts++
		s.log.Info().Int("restarts", s.record.Restarts).Float64("wake_ms", took).Msg("server restarted")
	} else {
		s.record.Wakes++
		s.log.Info().Int("wakes", s.record.Wakes).Float64("wake_ms", took).Msg("server woken")
	}
	h.restarts = false
	s.writeRecord(s.state())
	if h.closing {
		s.request(teardown.StdinClosed, causeStdin)
	}
}

// proven begins the pauses anew once a server is awake. One that is only tried may fail as those before it did.
func (h *hibernation) proven() {
	if h.phase == awake {
		h.pause = 0
	}
}

// wakeFailed ends the half-started tree. The messages that wait are answered once it is gone.
func (s *Session) wakeFailed(why string) {
	if s.hib.phase == waking {
		s.hib.why = why
	}
	s.changePhase(onFailed)
}

// refuseWaiting answers the requests that wait for a server that cannot be woken. The next message tries again, after a pause
// that grows with each failure.
func (s *Session) refuseWaiting() {
	h := s.hib
	if h.why == "" {
		h.why = fmt.Sprintf("it exited with code %d before it had answered anything", s.tree.code)
	}
	if s.tree != nil {
		s.forgetTree()
	}
	h.retryAt = backOff(&h.pause, time.Now())
	s.log.Error().Str("why", h.why).Dur("next_try_in", h.pause).Msg("server could not be woken")
	s.onRelay(h.relay.Refuse("mcp-tether: the server could not be woken: " + h.why))
	s.listenToClient()
}

// flushRelay passes on what the server has still written, and answers the requests that it left open with an error. The
// wait for a slow client is bounded.
func (s *Session) flushRelay() {
	if s.hib == nil || !s.cause.listens() {
		return
	}
	var owed relay.Unanswered
	switch s.cause {
	case causeServer:
		if s.opts.Share == "" { // The host of a shared server answers for it.
			owed.Answer = s.tree.lastWord()
		}
	case causeChanged:
		owed.Answer = "mcp-tether: the server could not be woken: " + s.hib.why
	case causeTooLong:
		// The end of a message that is too long was not seen, so its id may not be known.
		owed = relay.Unanswered{Answer: "mcp-tether: " + s.hib.why, Unread: true}
	}
	if !s.hib.relay.Flush(owed, time.Now().Add(s.opts.EOFGrace)) {
		s.log.Warn().Msg("the client did not read the last of the server's output")
	}
}
