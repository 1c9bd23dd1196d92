package front

import (
	"fmt"
	"time"

	"mcp-tether/internal/session"
)

// pauses are those between two starts of a backend.
type pauses struct {
	// between grows with each failed wake, and with each server that does not live long.
	between time.Duration
	// why says what failed, or why the session ends. refusal is the answer to calls in a long pause.
	why, refusal string
	// wanted says that a call had that answer, so the next try is made all the same.
	wanted bool
	// restarts says that the next server takes the place of one that has crashed, so it counts as a restart and not as a wake.
	restarts bool
}

// patience bounds the pauses before a server is started again.
type patience struct {
	// calm is how long a server must have lived for its successor to be started without a pause.
	calm        time.Duration
	first, last time.Duration
}

// patience is that for a server, or for the host of one, which others may end.
func (f *front) patience() patience {
	if f.o.Finder != nil {
		return patience{100 * time.Millisecond, 100 * time.Millisecond, 1600 * time.Millisecond}
	}
	return patience{time.Minute, time.Second, 30 * time.Second}
}

func (p patience) backOff(pause *time.Duration, now time.Time) time.Time {
	*pause = min(max(2**pause, p.first), p.last)
	return now.Add(*pause)
}

// wake starts a backend. The client's requests wait until the new server has answered the handshake as the first one did.
func (f *front) wake() {
	f.pauses.why, f.pauses.wanted = "", false
	f.clock.wakeBy, f.clock.rest, f.clock.restAt = time.Time{}, 0, time.Time{} // Another session's host may take long to end.
	f.startNext()
}

// startNext starts the backend of a wake. Its server is told what the last one knew once it is there.
func (f *front) startNext() {
	ready, err := f.startBackend()
	switch {
	case err != nil:
		f.pauses.why = err.Error()
		f.step(onUnstarted)
	case ready:
		f.restore()
	}
}

// wakeTimeout bounds the handshake with a server that takes the place of another.
const wakeTimeout = 30 * time.Second

// restore has a new server told what the last one knew.
func (f *front) restore() {
	f.clock.wakeBy = time.Now().Add(wakeTimeout)
	f.onRelay(f.relay.Restore())
}

func (f *front) resume() {
	now := time.Now()
	f.clock.retryAt, f.clock.lookAt = time.Time{}, f.firstLook(now)
	if !f.relay.Spoke() && !f.pauses.restarts {
		// The first host: nothing was woken.
	} else if took := milliseconds(now.Sub(f.back.began)); f.pauses.restarts {
		f.record.Restarts++
		f.log.Info().Int("restarts", f.record.Restarts).Float64("wake_ms", took).Msg("server restarted")
	} else {
		f.record.Wakes++
		f.log.Info().Int("wakes", f.record.Wakes).Float64("wake_ms", took).Msg("server woken")
	}
	if f.phase == awake && !f.pauses.restarts {
		f.pauses.between = 0
	}
	f.pauses.restarts, f.restart.under, f.record.Unstarted = false, false, ""
	f.writeRecord()
	if f.closing {
		f.end(session.CauseStdin)
	}
}

// wakeFailed ends the half-started backend. The messages that wait are answered once it is gone. What has failed once may fail each
// time, so the next server that serves is not put to sleep.
func (f *front) wakeFailed(why string) {
	if f.phase == waking {
		f.pauses.why = why
		if !f.restart.under { // A version that is wanted by a person may be followed by a better one.
			f.record.Sleepless = why
		}
	}
	f.step(onFailed)
}

// refuseWaiting answers the requests that wait for a server that cannot be woken. The next message tries again, after a pause
// that grows with each failure.
func (f *front) refuseWaiting() {
	p := &f.pauses
	if p.why == "" {
		p.why = f.whySilent()
	}
	f.restart.under, f.record.Unstarted = false, p.why
	p.refusal = "mcp-tether: the server could not be woken: " + p.why
	f.forget(p.refusal)
	f.clock.retryAt = f.patience().backOff(&p.between, time.Now())
	f.log.Error().Str("why", p.why).Dur("next_try_in", p.between).Msg("server could not be woken")
	f.relay.ForgetSaved()
	f.refuse(p.between)
	f.listenToClient()
}

// shortPause is how long a call may wait for the next try. In a longer pause it is answered at once.
const shortPause = time.Second

// onWaiting: the client has written something that a server must have. It starts one, unless the last one failed a moment ago.
func (f *front) onWaiting() {
	if f.clock.retryAt.IsZero() {
		f.step(onMessage)
		return
	}
	if left := time.Until(f.clock.retryAt); left > shortPause {
		f.pauses.wanted = true
		f.refuse(left)
	}
}

// refuse answers the requests that wait, and says when there will be another try.
func (f *front) refuse(left time.Duration) {
	f.onRelay(f.relay.Refuse(fmt.Sprintf("%s; next try in %.0f s", f.pauses.refusal, left.Seconds())))
	f.endIfClosed()
}

// whySilent says what became of a server that has answered nothing.
func (f *front) whySilent() string {
	if f.o.Finder != nil {
		return f.back.hostFate
	}
	return fmt.Sprintf("it exited with code %d before it had answered anything%s", f.back.code, f.relay.LastWords().Said())
}
