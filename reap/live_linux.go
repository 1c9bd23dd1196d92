package reap

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"mcp-tether/proc"
	"mcp-tether/session"
)

// List reads the living sessions that the user can see.
func List(runtime string) ([]Live, error) {
	var r proc.Reader
	host, err := r.ReadHost()
	if err != nil {
		return nil, err
	}
	now, err := proc.Now()
	if err != nil {
		return nil, err
	}
	var out []Live
	for _, place := range session.Dirs(os.Getuid(), runtime) {
		ids, _ := session.IDs(place.Dir)
		for _, id := range ids {
			rec, err := session.Read(place.Dir, id)
			if err != nil || rec.Host != host || rec.UID != place.Owner {
				continue
			}
			if held, err := session.Held(place.Dir, id); err == nil && held {
				out = append(out, live(&r, rec, place.Dir, now))
			}
		}
	}
	slices.SortFunc(out, func(a, b Live) int { return a.Started.Compare(b.Started) })
	return out, nil
}

// live measures one session.
func live(r *proc.Reader, rec session.Record, dir string, now uint64) Live {
	l := Live{Record: rec, dir: dir, GatewayState: lives(r, rec.Gateway).String()}
	if rec.Gateway.Zero() {
		l.GatewayState = Unknown.String()
	}
	if now > rec.Supervisor.Start {
		l.AgeSeconds = int64((now - rec.Supervisor.Start) / proc.TicksPerSecond)
	}
	if l.GatewayState == Alive.String() {
		l.GatewayCommand = session.Line(r.Args(rec.Gateway.PID))
	}
	if lives(r, rec.Supervisor) != Alive {
		return l
	}
	below, _ := r.Descendants(rec.Supervisor.PID)
	depth := map[int]int{rec.Supervisor.PID: -1}
	for _, p := range below {
		depth[p.PID] = depth[p.PPID] + 1
		if p.Dead() {
			continue
		}
		m := Memory(p.PID)
		l.Procs++
		l.MemoryBytes += m
		l.CPUPercent += CPU(p.PID)
		l.Tree = append(l.Tree, Node{p.PID, p.PPID, depth[p.PID], m, session.Redact(r.Args(p.PID))})
	}
	return l
}

// stopPause is how often to look whether a session has ended.
const stopPause = 20 * time.Millisecond

// Stop asks the supervisors of the sessions to end them, and waits until their leases are free.
func Stop(sessions []Live, o StopOptions) ([]Stopped, error) {
	var r proc.Reader
	out := make([]Stopped, len(sessions))
	for i, l := range sessions {
		out[i] = Stopped{ID: l.ID, Name: l.Name}
		err := r.Signal(l.Supervisor, syscall.SIGTERM)
		if err != nil && !errors.Is(err, proc.ErrGone) {
			out[i].Error = fmt.Sprintf("ask supervisor %d: %v", l.Supervisor.PID, err)
		}
	}
	deadline := time.Now().Add(o.Timeout)
	for i, l := range sessions {
		for out[i].Error == "" {
			held, err := session.Held(l.dir, l.ID)
			if !held && (err == nil || errors.Is(err, session.ErrNoLock)) {
				out[i].Ended = errors.Is(err, session.ErrNoLock) || !recorded(l)
				if !out[i].Ended {
					out[i].Error = "over, but something of it survived: mcp-tether reap names it"
				}
				break
			}
			if time.Now().After(deadline) {
				out[i].Error = "still ending: try again, or look at it with mcp-tether ps --tree"
				break
			}
			time.Sleep(stopPause)
		}
	}
	return out, nil
}

// recorded reports whether the record of an ended session is still there: it stays when somebody survived.
func recorded(l Live) bool {
	_, err := session.Read(l.dir, l.ID)
	return err == nil
}
