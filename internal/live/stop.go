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

// Stopped is what became of a session that was asked to end.
type Stopped struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Ended bool   `json:"ended"`
	// Error says why it has not ended.
	Error string `json:"error,omitempty"`
}

// stopPause is how often to check whether a session has ended.
const stopPause = 20 * time.Millisecond

// stop asks the anchors of the sessions, or the hosts of shared servers, to end them, and waits until their leases are free. An anchor
// holds the signal back while its supervisor starts a runtime, which another signal would kill. Where there is none, or it is process 1,
// or belongs to the session behind a front, the supervisor is asked.
func stop(sessions []Session, timeout time.Duration) []Stopped {
	var r proc.Reader
	out := make([]Stopped, len(sessions))
	for i, l := range sessions {
		if out[i] = (Stopped{ID: l.ID, Name: l.Name}); l.Kept != "" {
			out[i].Error = fmt.Sprintf("over already; pid %d is left, %s (mcp-tether reap --kill --keep-nothing ends it)", l.Server.PID, l.Kept)
			continue
		}
		asked := l.Anchor
		switch {
		case l.Sharing != nil:
			// Its sessions would start another server with the next message.
			asked = l.Sharing.Host
		case asked.PID <= 1, l.behind != "":
			asked = l.Supervisor
		}
		err := r.Signal(asked, syscall.SIGTERM, syscall.SIGCONT)
		if errors.Is(err, proc.ErrGone) {
			asked = l.Supervisor
			err = r.Signal(asked, syscall.SIGTERM)
		}
		// A stopped supervisor takes no signal before it is continued; a stopped anchor would hold back the exit code.
		_ = r.Signal(l.Supervisor, syscall.SIGCONT)
		if !l.Anchor.Zero() {
			_ = r.Signal(l.Anchor, syscall.SIGCONT)
		}
		if err != nil && !errors.Is(err, proc.ErrGone) {
			out[i].Error = fmt.Sprintf("ask process %d: %v", asked.PID, err)
		}
	}
	deadline := time.Now().Add(timeout)
	for i, l := range sessions {
		if out[i].Error == "" {
			out[i].Error = awaitEnd(l.dir, l.ID, deadline)
		}
		if out[i].Error == "" && l.behind != "" {
			out[i].Error = awaitEnd(l.dir, l.behind, deadline)
		}
		out[i].Ended = out[i].Error == ""
	}
	return out
}

// StopListed is stop for root's child: root has seen sessions with these ids alive. Of one that has ended since then, or is
// about to, the directories say whether something is left, if all could be read. It asks the living first, so that all have the same time.
func StopListed(seen *Seen, ids []string, timeout time.Duration) []Stopped {
	var (
		out    []Stopped
		living []Session
		gone   []string
	)
	deadline := time.Now().Add(timeout)
	for _, id := range ids {
		same, err := byID(seen.Sessions, id)
		if living = append(living, same...); err != nil {
			gone = append(gone, id)
		}
	}
	stopped := stop(living, timeout)
	for _, id := range gone {
		one := Stopped{ID: id}
		if seen.blind {
			one.Error = "not known to be over: not all records can be read"
		}
		for _, dir := range seen.Dirs {
			one.Error += awaitEnd(dir, id, deadline)
		}
		one.Ended = one.Error == ""
		out = append(out, one)
	}
	return append(out, stopped...)
}

// awaitEnd waits until the lease of a session is free, and says what is left; "" for nothing. The record of an ended
// session stays when a process survived.
func awaitEnd(dir *session.Directory, id string, deadline time.Time) (left string) {
	for {
		alive, err := dir.Held(id)
		if err == nil && !alive {
			if rec, err := dir.Read(id); err == nil && rec.State != session.StateKept {
				return "over, but something of it survived: mcp-tether reap names it"
			}
			return ""
		}
		if errors.Is(err, os.ErrNotExist) {
			return ""
		}
		if time.Now().After(deadline) {
			return "still ending: try again, or look at it with mcp-tether ps --tree"
		}
		time.Sleep(stopPause)
	}
}
