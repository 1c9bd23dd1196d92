package front

import (
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/eventlog"
	"mcp-tether/internal/proc"
)

// clock says when something is due without any input. A time is zero when nothing is.
type clock struct {
	started, interrupted time.Time
	// lookAt is when to check next whether the server is idle.
	lookAt time.Time
	// wakeBy is when the handshake with a new server must be finished, and rest the wait for one that reads the client's roots.
	wakeBy time.Time
	rest   rest
	// attachAt is when to look again for the host of a shared server.
	attachAt time.Time
	// retryAt ends a pause between two starts.
	retryAt time.Time
	// closeBy ends the wait for a client that has closed its end: that it reads, or that its server has read all.
	closeBy time.Time
	// rewriteAt is when to write the record again that could not be written.
	rewriteAt time.Time
}

// due is when there is something to do without any input; zero when never.
func (f *front) due() time.Time {
	c := &f.clock
	due := earliest(f.relay.ShrinkAt(), f.back.pressAt, c.rewriteAt, c.attachAt)
	switch f.phase {
	case awake, trying:
		return earliest(due, c.lookAt)
	case waking:
		return earliest(due, c.wakeBy, c.rest.at)
	case asleep:
		return earliest(due, c.retryAt, c.closeBy)
	case over:
		return earliest(due, c.closeBy)
	}
	return due
}

// timeout is how long poll may wait; negative for ever.
func (f *front) timeout(now time.Time) time.Duration {
	wait := time.Duration(-1)
	if due := f.due(); !due.IsZero() {
		wait = max(due.Sub(now), 0)
	}
	if f.sink.Pending() {
		f.sink.Again()
		wait = shorter(wait, eventlog.Pause)
	}
	if f.watch.mustAsk() {
		wait = shorter(wait, proc.LookPause)
	}
	return wait
}

// shorter is the shorter of two waits. A negative one is for ever; b is not negative.
func shorter(a, b time.Duration) time.Duration {
	if a < 0 || b < a {
		return b
	}
	return a
}

// earliest is the first of the times that are set, zero when none is.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// isDue reports whether a time that is set has come.
func isDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// onTime acts on what is due.
func (f *front) onTime(now time.Time) {
	if isDue(f.relay.ShrinkAt(), now) {
		f.relay.Shrink()
		debug.FreeOSMemory()
	}
	if isDue(f.clock.rewriteAt, now) {
		f.writeRecord()
	}
	if isDue(f.back.pressAt, now) && f.back.there() {
		f.press()
	}
	if isDue(f.clock.attachAt, now) {
		f.onAttachTime()
	}
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
	case isDue(c.wakeBy, now):
		f.wakeFailed(fmt.Sprintf("%s within %v (--wake-timeout)", f.relay.Lacks(), f.o.WakeTimeout))
	case isDue(c.rest.at, now) && c.rest.over(now, f.resting()):
		f.onRelay(f.relay.Settled())
	}
}

// whileAsleep looks whether the client still reads if it has closed its end, and tries again to wake the server.
func (f *front) whileAsleep(now time.Time) {
	c := &f.clock
	if isDue(c.closeBy, now) {
		c.closeBy = time.Time{}
		if !f.relay.Drained() {
			// No server is started before the client has all that the last one wrote.
			f.end(causeStdin)
			return
		}
	}
	if isDue(c.retryAt, now) {
		c.retryAt = time.Time{}
		f.listenToClient()
	}
}

// whileEnding asks a server to end that has not read all that the client sent before it closed its end.
func (f *front) whileEnding(now time.Time) {
	if !isDue(f.clock.closeBy, now) {
		return
	}
	f.clock.closeBy = time.Time{}
	if !f.relay.ClientEnded() {
		f.done = f.back.attached
		f.ask(unix.SIGTERM)
	}
}
