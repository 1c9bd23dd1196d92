package front

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"

	"mcp-tether/internal/session"
)

// idleAfter is when a server that is last used now has been idle for long enough. It is zero if the server is never put
// to sleep, also because one that was woken could not take its place.
func (f *front) idleAfter(now time.Time) time.Time {
	if f.o.Hibernate <= 0 || f.record.Sleepless != "" {
		return time.Time{}
	}
	return now.Add(f.o.Hibernate)
}

// sleepIfIdle lets the server fall asleep if it is idle and nothing is pending.
func (f *front) sleepIfIdle(now time.Time) {
	if !proc.IsDue(f.clock.lookAt, now) {
		return
	}
	if f.clock.lookAt = f.idleAfter(f.relay.Used()); now.Before(f.clock.lookAt) {
		return
	}
	f.clock.lookAt = f.idleAfter(now)
	may, why := f.relay.MaySleep(now)
	may = may && f.back.hasRead()
	if why != "" {
		f.log.Debug().Str("why", why).Msg("idle, but kept awake")
	}
	if may {
		f.step(onIdle)
	}
}

// sleep forgets the backend: the server is asleep from now on.
func (f *front) sleep() {
	f.record.Sleeps++
	f.forget()
	f.log.Info().Int("sleeps", f.record.Sleeps).Msg("server sleeps")
	f.listenToClient()
}

// listenToClient acts on what the client has done meanwhile. poll(2) does not tell of the end of a file.
func (f *front) listenToClient() {
	f.onRelay(f.relay.Move([2]unix.PollFd{}))
	f.endIfClosed()
}

// endIfClosed ends a session without a server when the client has closed its end and no message waits. A message that
// waits is for the next server, if the client reads in time.
func (f *front) endIfClosed() {
	switch {
	case f.phase != asleep || !f.closing:
	case f.relay.Waiting():
		f.clock.closeBy = time.Now().Add(f.o.EOFGrace)
	default:
		f.end(session.CauseStdin)
	}
}
