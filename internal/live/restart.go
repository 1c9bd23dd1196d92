package live

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// Restarted is what became of a session whose server was to be started again.
type Restarted struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Restarted says that another server has taken the place of the last one, or will with the next message: see Next.
	Restarted bool `json:"restarted"`
	// Next says that there is no server now, and the next message starts one.
	Next bool `json:"next_message,omitempty"`
	// Error says why there is no other server.
	Error string `json:"error,omitempty"`
}

// errNoFront is what to do about a session that no front stands before.
var errNoFront = errors.New("its server cannot be replaced, because mcp-tether does not read along here. " +
	"From its next start on it can: mcp-tether wrap CLIENT -- --hibernate 30m")

// Restart asks the fronts of sessions, or the hosts of shared servers, for another server, and waits until it is there. Unless now
// is set, they wait for open calls.
func Restart(sessions []Session, now bool, timeout time.Duration) []Restarted {
	var r proc.Reader
	sig := proc.Restart
	if now {
		sig = proc.RestartNow
	}
	out := make([]Restarted, len(sessions))
	for i, l := range sessions {
		out[i] = Restarted{ID: l.ID, Name: l.Name}
		if err := askRestart(&r, l, sig); err != nil {
			out[i].Error = err.Error()
		}
	}
	deadline := time.Now().Add(timeout)
	for i, l := range sessions {
		if out[i].Error == "" {
			out[i].Next, out[i].Error = l.awaitServer(deadline)
			out[i].Restarted = out[i].Error == ""
		}
	}
	return out
}

// askRestart asks one session. Who has no front would take the signal for one that is to be passed on.
func askRestart(r *proc.Reader, l Session, sig syscall.Signal) error {
	asked := l.Supervisor
	switch {
	case l.Sharing != nil:
		asked = l.Sharing.Host
	case !l.Front:
		return errNoFront
	}
	if err := r.Signal(asked, sig, syscall.SIGCONT); err != nil {
		return fmt.Errorf("ask process %d: %w", asked.PID, err)
	}
	return nil
}

// awaitServer waits for another server. next says that the next message will start it.
func (l *Session) awaitServer(deadline time.Time) (next bool, why string) {
	if l.Sharing != nil { // It has ended when its session has, and all sessions know of it when the host has ended.
		var r proc.Reader
		why = awaitEnd(l.dir, l.ID, deadline)
		for why == "" && r.Life(l.Sharing.Host) == proc.Alive && time.Now().Before(deadline) {
			time.Sleep(stopPause)
		}
		return true, why
	}
	for {
		rec, err := l.dir.Read(l.ID)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return false, "the session has ended"
		case err != nil:
			return false, err.Error()
		case rec.Restarts > l.Restarts:
			return false, ""
		case rec.Unstarted != "" && (rec.Unstarted != l.Unstarted || rec.State == session.StateRunning):
			return false, rec.Unstarted
		case rec.State == session.StateAsleep, rec.State == session.StateLazy:
			return true, ""
		case time.Now().After(deadline):
			return false, "not restarted yet: it waits for open calls (--force does not), or for its server to end"
		}
		time.Sleep(stopPause)
	}
}
