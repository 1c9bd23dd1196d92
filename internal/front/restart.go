package front

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/share"
)

// restart is a wish for another server: of a person (mcp-tether restart), or because a file has changed (--restart-on).
type restart struct {
	// by is until when open calls may still be answered; zero where nothing is wanted.
	by time.Time
	// forced says that it is not waited for: a server that hangs may not see the end of its input.
	forced bool
	// under says that the server is being replaced, until the next one serves or cannot be had.
	under bool
	// changes are those of files, which such wishes come from.
	changes changes
}

// onRestartSignal takes the wish of mcp-tether restart, and reports whether the signal was one.
func (f *front) onRestartSignal(sig syscall.Signal) bool {
	switch sig {
	case proc.Restart:
		f.wantRestart(share.RestartGrace)
	case proc.RestartNow:
		f.wantRestart(0)
	default:
		return false
	}
	return true
}

// wantRestart has the server replaced once no call is open. Where there is none, the next one is new anyway, and is not waited for.
func (f *front) wantRestart(grace time.Duration) {
	switch {
	case f.back.attached: // A host is asked itself.
	case f.phase == asleep && !f.restart.under:
		f.pauses.between, f.clock.retryAt = 0, time.Time{}
		f.listenToClient()
	default:
		f.restart.by = proc.Earliest(f.restart.by, time.Now().Add(grace))
		f.restart.forced = f.restart.forced || grace == 0
	}
}

// restartIfReady ends the server if it is to be replaced and has answered, or has had the time to.
func (f *front) restartIfReady(now time.Time) {
	switch r := &f.restart; {
	case r.by.IsZero(), f.phase == waking:
	case f.phase != awake && f.phase != trying:
		r.by = time.Time{} // It is being ended.
	case now.Before(r.by) && f.relay.Open():
	default:
		r.by = time.Time{}
		if why := f.relay.Unrestorable(); why != "" {
			f.record.Unstarted = why
			f.log.Warn().Str("why", why).Msg("the server cannot be restarted")
			f.writeRecord()
			return
		}
		r.under, f.record.Unstarted = true, ""
		if f.step(onRestart); r.forced {
			f.ask(unix.SIGTERM)
		}
		r.forced = false
	}
}

// replaced forgets a server that was ended for a restart. What it had not answered is answered with an error.
func (f *front) replaced() {
	f.log.Info().Msg("server was ended, to be started again")
	f.pauses.restarts = true
	f.forget("mcp-tether: the server was restarted before it answered")
	f.listenToClient()
}
