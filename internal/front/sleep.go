package front

import (
	"time"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
)

// settleTime is how long after a message the server may still tidy up. What it uses of a processor after that counts.
const settleTime = 10 * time.Second

// firstLook is when a server that is last used now is looked at first. It is zero if the server is never put to
// sleep, also because one that was woken could not take its place.
func (f *front) firstLook(now time.Time) time.Time {
	if f.o.Hibernate <= 0 || f.record.Sleepless != "" {
		return time.Time{}
	}
	return now.Add(min(f.o.Hibernate/2, settleTime))
}

// maxLookPause is how many times the idle time two looks at a server that is kept awake are apart at most.
const maxLookPause = 8

// sleepIfIdle lets the server fall asleep if it is idle and nothing is pending. Two looks at its processes do for each idle
// time: one once it has settled, and one in the end.
func (f *front) sleepIfIdle(now time.Time) {
	if !proc.IsDue(f.clock.lookAt, now) {
		return
	}
	s, used := &f.back.seen, f.relay.Used()
	if !s.used.Equal(used) {
		if f.clock.lookAt = f.firstLook(used); now.Before(f.clock.lookAt) {
			return
		}
		f.beginIdle(used, now)
		f.clock.lookAt = f.firstLook(now) // At the earliest: there must be time to compare.
		return
	}
	if f.clock.lookAt = used.Add(f.o.Hibernate); now.Before(f.clock.lookAt) {
		return
	}
	may, why := f.relay.MaySleep()
	if may && !f.o.Anyway {
		why = f.work(now)
	}
	if may && why == "" {
		f.step(onIdle)
		return
	}
	f.stayAwake(why, now)
}

func (f *front) stayAwake(why string, now time.Time) {
	p := patience{first: f.o.Hibernate, last: maxLookPause * f.o.Hibernate}
	f.clock.lookAt = p.backOff(&f.back.seen.pause, now)
	if why != "" {
		f.log.Debug().Str("why", why).Msg("idle, but kept awake")
	}
	f.tellAwake(why)
}

func (f *front) tellAwake(why string) {
	if f.record.Awake != why {
		f.record.Awake = why
		f.writeRecord()
	}
}

// sleep forgets the backend: the server is asleep from now on.
func (f *front) sleep() {
	f.record.Sleeps++
	f.pauses.between = 0
	f.record.Awake = ""
	f.forget("")
	f.log.Info().Int("sleeps", f.record.Sleeps).Msg("server sleeps")
	f.listenToClient()
}

// listenToClient acts on what the client has done meanwhile, and has waited for a server to be gone.
func (f *front) listenToClient() {
	f.onRelay(f.relay.Move(relay.Polled{}))
	f.endIfClosed()
}

// endIfClosed ends a session without a server when the client has closed its end and no message waits. A message that
// waits is for the next server, if the client reads in time.
func (f *front) endIfClosed() {
	switch {
	case f.phase != asleep || !f.closing:
	case f.relay.ClientWaits():
		f.clock.closeBy = time.Now().Add(f.o.EOFGrace)
	default:
		f.end(session.CauseStdin)
	}
}
