package live

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"mcp-tether/proc"
	"mcp-tether/session"
)

// stopPause is how often to look whether a session has ended.
const stopPause = 20 * time.Millisecond

// stop asks the supervisors of the sessions, or the hosts of shared servers, to end them, and waits until their leases
// are free.
func stop(sessions []Session, timeout time.Duration) []Stopped {
	var r proc.Reader
	out := make([]Stopped, len(sessions))
	for i, l := range sessions {
		out[i] = Stopped{ID: l.ID, Name: l.Name}
		// A stopped supervisor takes no signal before it is continued; a stopped anchor would hold back the exit code.
		supervisor := l.Supervisor
		if l.Sharing != nil {
			// A host that lived on would start another server with the next message.
			supervisor = l.Sharing.Host
		}
		err := r.Signal(supervisor, syscall.SIGTERM, syscall.SIGCONT)
		if !l.Anchor.Zero() {
			_ = r.Signal(l.Anchor, syscall.SIGCONT)
		}
		if err != nil && !errors.Is(err, proc.ErrGone) {
			out[i].Error = fmt.Sprintf("ask supervisor %d: %v", supervisor.PID, err)
		}
	}
	deadline := time.Now().Add(timeout)
	for i, l := range sessions {
		if out[i].Error == "" {
			out[i].Error = l.awaitEnd(deadline)
		}
		out[i].Ended = out[i].Error == ""
	}
	return out
}

// awaitEnd waits until the lease is free, and says what is left; "" for nothing.
func (l Session) awaitEnd(deadline time.Time) (left string) {
	for {
		held, err := l.dir.Held(l.ID)
		switch {
		case errors.Is(err, session.ErrNoLock):
			return ""
		case err == nil && !held && l.recorded():
			return "over, but something of it survived: mcp-tether reap names it"
		case err == nil && !held:
			return ""
		case time.Now().After(deadline):
			return "still ending: try again, or look at it with mcp-tether ps --tree"
		}
		time.Sleep(stopPause)
	}
}

// recorded reports whether the record of an ended session is still there: it stays when a process survived.
func (l Session) recorded() bool {
	_, err := l.dir.Read(l.ID)
	return err == nil
}
