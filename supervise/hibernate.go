package supervise

import (
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/teardown"
)

// hibernation is what outlasts the trees of a session with --hibernate or --on-crash=restart: the relay between client
// and server, and the phase of the server.
type hibernation struct {
	phase phase
	relay *relay.Relay
	// limit is how long a server must be idle before it is put to sleep; 0 never.
	limit time.Duration
	// lookAt is when to check next whether the server is idle.
	lookAt time.Time
	// began is when the last server was started, and wakeBy when the handshake with one that is woken must be finished.
	began, wakeBy time.Time
	// restAt is when to look again whether a woken server has made use of the client's roots; zero unless it has just got
	// them. restSince is when its rest began, and restBy when the wait for that rest ends.
	restAt, restSince, restBy time.Time
	// pause grows with each failed wake; retryAt ends it, zero when there is none. why says what failed.
	pause   time.Duration
	retryAt time.Time
	why     string
	// restarts says that the next server takes the place of one that has crashed, so it counts as a restart and not as a wake.
	// crashPause is how long it has to wait, and grows with each server that does not live long.
	restarts   bool
	crashPause time.Duration
	// closing says that the client has closed its end. closeBy is when to look whether it still reads, while messages of it
	// wait for a server; zero when there is nothing to look for.
	closing bool
	closeBy time.Time
}

// openRelay prepares the relay.
func (s *Session) openRelay() {
	if !s.opts.relays() {
		return
	}
	if s.hand.Terminal {
		s.log.Warn().Msg("--hibernate and --on-crash have no effect on a terminal")
		return
	}
	now := time.Now()
	s.hib = &hibernation{
		phase: awake, limit: s.opts.Hibernate, began: now,
		relay: relay.New(relay.ReadEnd(0), relay.WriteEnd(1), s.opts.MaxMessage, now),
	}
	s.hib.lookAt = s.hib.idleAfter(now)
}

// idleAfter is when a server that is last used now has been idle for long enough. It is zero if the server is never put
// to sleep.
func (h *hibernation) idleAfter(now time.Time) time.Time {
	if h.limit <= 0 {
		return time.Time{}
	}
	return now.Add(h.limit)
}

// endsWithTree reports whether the session ends when its tree does. Without a relay it always does.
func (h *hibernation) endsWithTree() bool {
	return h == nil || phaseTable[h.phase][onTreeGone].to == over
}

// due is when there is something to do without any input; zero when never.
func (h *hibernation) due() time.Time {
	if h == nil {
		return time.Time{}
	}
	shrinkAt := h.relay.ShrinkAt()
	switch h.phase {
	case awake, trying:
		return earliest(h.lookAt, shrinkAt)
	case waking:
		return earliest(h.wakeBy, h.restAt, shrinkAt)
	case asleep:
		return earliest(h.retryAt, h.closeBy, shrinkAt)
	}
	return shrinkAt
}

// onHibernateTime acts on what is due.
func (s *Session) onHibernateTime(now time.Time) {
	h := s.hib
	if isDue(h.relay.ShrinkAt(), now) {
		h.relay.Shrink()
		debug.FreeOSMemory()
		return
	}
	switch h.phase {
	case awake, trying:
		s.sleepIfIdle(now)
	case waking:
		if !isDue(h.restAt, now) || !now.Before(h.wakeBy) {
			s.wakeFailed(fmt.Sprintf("%s within %v (--wake-timeout)", h.relay.Lacks(), s.opts.WakeTimeout))
		} else if h.hasRested(now, s.tree.resting()) {
			s.onRelay(h.relay.Settled())
		}
	case asleep:
		s.whileAsleep(now)
	}
}

// whileAsleep looks whether the client still reads if it has closed its end, and tries again to wake the server.
func (s *Session) whileAsleep(now time.Time) {
	h := s.hib
	if isDue(h.closeBy, now) {
		h.closeBy = time.Time{}
		if !h.relay.Drained() {
			// No server is started before the client has all that the last one wrote.
			s.end(causeStdin)
			return
		}
	}
	if isDue(h.retryAt, now) {
		h.retryAt = time.Time{}
		s.listenToClient()
	}
}

// changePhase gives an event to the phase table, and carries out the action.
func (s *Session) changePhase(ev phaseEvent) {
	if s.hib == nil {
		return
	}
	switch s.hib.phase.step(ev) {
	case putToSleep:
		s.hib.relay.EndServer()
		s.tree.step(teardown.StdinClosed, causeIdle)
	case hold:
		s.hib.relay.EndServer()
	case sleep:
		s.sleep()
	case reportCrash:
		s.reportCrash()
	case wake:
		s.wake()
	case resume:
		s.resume()
	case abandon:
		s.hib.relay.EndServer()
		s.tree.step(teardown.MustEnd, causeWake)
	case refuseWaiting:
		s.refuseWaiting()
	case end:
		s.hib.relay.Finish()
	case carryOn:
	}
}

// onRelay acts on what the relay has found.
func (s *Session) onRelay(events []relay.Event) {
	for _, e := range events {
		switch e.Kind {
		case relay.ClientWrote:
			if s.hib.retryAt.IsZero() {
				s.changePhase(onMessage)
			}
		case relay.Settling:
			s.hib.awaitRest(time.Now())
		case relay.ClientClosed:
			s.onStdinClosed()
		case relay.Answered:
			s.changePhase(onAnswered)
			s.hib.proven()
		case relay.Restored:
			s.changePhase(onRestored)
		case relay.Unasked:
			s.changePhase(onUnasked)
		case relay.RestoreFailed:
			s.wakeFailed(e.Text)
		case relay.Changed:
			s.log.Error().Str("why", e.Text).Msg("server cannot take the place of the one before it")
			s.hib.why = e.Text
			s.end(causeChanged)
		case relay.TooLong:
			s.log.Error().Str("error", e.Text).Msg("message is longer than --max-message")
			s.hib.why = e.Text + " (--max-message)"
			s.end(causeTooLong)
		case relay.Withheld:
			s.log.Debug().Str("method", e.Text).Msg("request of a server that is being put to sleep is not passed on")
		case relay.Dropped:
			s.log.Debug().Str("method", e.Text).Msg("dropped: the server could not be woken")
		}
	}
}

// endIfClosed ends a session without a server when the client has closed its end and no message waits. A message that
// waits is for the next server, if the client reads in time.
func (s *Session) endIfClosed() {
	h := s.hib
	switch {
	case h.phase != asleep || !h.closing:
	case h.relay.Waiting():
		h.closeBy = time.Now().Add(s.opts.EOFGrace)
	default:
		s.end(causeStdin)
	}
}

// sleepIfIdle lets the server fall asleep if it is idle and nothing is pending.
func (s *Session) sleepIfIdle(now time.Time) {
	h := s.hib
	h.lookAt = h.idleAfter(h.relay.Used())
	if now.Before(h.lookAt) {
		return
	}
	h.lookAt = h.idleAfter(now)
	if s.tree.server == 0 || s.tree.machine.State != teardown.Running {
		return
	}
	may, why := h.relay.MaySleep(now)
	if why != "" {
		s.log.Debug().Str("why", why).Msg("idle, but kept awake")
	}
	if may {
		s.changePhase(onIdle)
	}
}

// sleep forgets the tree: the server is asleep from now on.
func (s *Session) sleep() {
	s.record.Sleeps++
	s.forgetTree()
	s.log.Info().Int("sleeps", s.record.Sleeps).Msg("server sleeps")
	s.listenToClient()
}

// listenToClient acts on what the client has done meanwhile. poll(2) does not tell of the end of a file.
func (s *Session) listenToClient() {
	s.onRelay(s.hib.relay.Move([2]unix.PollFd{}))
	s.endIfClosed()
}

// forgetTree closes the tree. What its server has written is still passed on.
func (s *Session) forgetTree() {
	r := s.closeTree()
	// What earlier trees had left is gone once a later one has removed it.
	s.left.containers = r.removed.err != nil || s.left.containers && !r.removed.done
	if len(r.survivors) > 0 || r.unseen {
		s.left.strays = true
		s.log.Error().Int("survivors", len(r.survivors)).Msg("the server is gone, and not all that it has started")
	}
	s.code = 0
	s.hib.relay.Disconnect()
	s.record.Server = proc.ID{}
	s.noteKept(r.kept)
	s.writeRecord(s.state())
	debug.FreeOSMemory()
}
