package front

import (
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// clock says when something is due without any input. A time is zero when nothing is.
type clock struct {
	started time.Time
	// lookAt is when to check next whether the server is idle.
	lookAt time.Time
	// wakeBy is when the handshake with a new server must be finished. restAt ends the time that such a server is given, which
	// takes rest.
	wakeBy, restAt time.Time
	rest           time.Duration
	// attachAt is when to look again for the host of a shared server.
	attachAt time.Time
	// retryAt ends a pause between two starts.
	retryAt time.Time
	// lostAt is when the calls of a server are answered that has closed its output, and not ended.
	lostAt time.Time
	// closeBy ends the wait for a client that has closed its end: that it reads, or that its server has read all.
	closeBy time.Time
	// leaveAt is when to leave the session to the waiter, and idle says that it was set since the server fell asleep.
	leaveAt time.Time
	idle    bool
}

// due is when there is something to do without any input; zero when never.
func (f *front) due() time.Time {
	c := &f.clock
	due := proc.Earliest(f.relay.ShrinkAt(), f.back.escalateAt, c.attachAt, c.lostAt, f.restart.changes.settleAt)
	switch f.phase {
	case awake, trying:
		return proc.Earliest(due, c.lookAt, f.restart.by)
	case waking:
		return proc.Earliest(due, c.wakeBy, c.restAt)
	case asleep:
		return proc.Earliest(due, c.retryAt, c.closeBy, c.leaveAt)
	case over:
		return proc.Earliest(due, c.closeBy)
	}
	return due
}

// timeout is how long poll may wait; negative for ever.
func (f *front) timeout(now time.Time) time.Duration {
	wait := time.Duration(-1)
	if due := f.due(); !due.IsZero() {
		wait = max(due.Sub(now), 0)
	}
	if f.watch.mustAsk() {
		wait = proc.Shorter(wait, proc.LookPause)
	}
	return wait
}

func (f *front) onTime(now time.Time) {
	if proc.IsDue(f.relay.ShrinkAt(), now) {
		f.relay.Shrink()
		debug.FreeOSMemory()
	}
	if proc.IsDue(f.clock.lostAt, now) {
		f.clock.lostAt = time.Time{}
		f.relay.Disconnect("mcp-tether: the server closed its output before it answered")
	}
	if proc.IsDue(f.back.escalateAt, now) && f.back.there() {
		f.escalate()
	}
	if proc.IsDue(f.clock.attachAt, now) {
		f.startNext()
	}
	f.onChanges(now)
	f.restartIfReady(now)
	switch f.phase {
	case awake, trying:
		f.sleepIfIdle(now)
	case waking:
		f.whileWaking(now)
	case asleep:
		f.whileAsleep(now)
	case over:
		f.whileEnding(now)
	}
}

// whileWaking gives up a server that takes too long, and goes on with one that has come to rest.
func (f *front) whileWaking(now time.Time) {
	c := &f.clock
	switch {
	case proc.IsDue(c.wakeBy, now):
		f.wakeFailed(fmt.Sprintf("%s within %v", f.relay.Lacks(), wakeTimeout))
	case proc.IsDue(c.restAt, now):
		c.rest, c.restAt = 0, time.Time{}
		f.onRelay(f.relay.PauseOver())
	}
	f.giveRest(now)
}

// giveRest gives a new server the time that it is to have for itself.
func (f *front) giveRest(now time.Time) {
	c := &f.clock
	if rest := f.relay.Pause(); rest != c.rest {
		c.rest, c.restAt = rest, time.Time{}
		if rest > 0 {
			c.restAt = now.Add(rest)
		}
	}
}

// whileAsleep looks whether the client still reads if it has closed its end, and tries again to wake the server.
func (f *front) whileAsleep(now time.Time) {
	c := &f.clock
	if f.restart.under && f.relay.Drained() {
		f.step(onMessage)
		return
	}
	if proc.IsDue(c.closeBy, now) {
		c.closeBy = time.Time{}
		if !f.relay.Drained() {
			// No server is started before the client has all that the last one wrote.
			f.end(session.CauseStdin)
			return
		}
	}
	if proc.IsDue(c.retryAt, now) {
		c.retryAt = time.Time{}
		if f.listenToClient(); f.pauses.wanted {
			f.step(onMessage)
		}
	}
}

// whileEnding asks a server to end that has not read all that the client sent before it closed its end. A shared one is waited for no
// longer.
func (f *front) whileEnding(now time.Time) {
	if !proc.IsDue(f.clock.closeBy, now) {
		return
	}
	f.clock.closeBy = time.Time{}
	if f.done = f.done || f.back.attached; !f.relay.ClientEnded() {
		f.ask(unix.SIGTERM)
	}
}
