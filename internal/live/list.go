package live

import (
	"errors"
	"os"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// List reads the living sessions that have a record in one of the directories, eldest first. It calls note for others that live,
// or may, and could not be read. The directories must stay open: StopAs and AddContainers look there again.
func List(dirs []*session.Directory, note func(string)) ([]Session, error) {
	var r proc.Reader
	host, err := r.ReadHost()
	if err != nil {
		return nil, err
	}
	now, err := proc.Now()
	if err != nil {
		return nil, err
	}
	var (
		out  []Session
		wait = sessionTimeout
	)
	for _, dir := range dirs {
		ids, err := dir.IDs()
		if err != nil {
			note(err.Error())
		}
		for _, id := range ids {
			rec, err := dir.Read(id)
			if err == nil && (rec.Host != host || rec.UID != os.Getuid()) {
				continue
			}
			alive, err := living(dir, id, err)
			switch {
			case err != nil:
				note("session " + id + ": " + err.Error())
			case alive:
				rec.Kept = nil // It is there for a recovering anchor.
				out = append(out, measureInTime(rec, dir, now, &wait))
			}
		}
	}
	// A generic sort of so large a type would add eight kilobytes to the program.
	sort.SliceStable(out, func(i, j int) bool { return out[i].Started.Before(out[j].Started) })
	return out, nil
}

// living reports whether a session lives. readErr is what came of reading its record. The error says that it may live, and that
// too little is known of it.
func living(dir *session.Directory, id string, readErr error) (bool, error) {
	if errors.Is(readErr, unix.ENOENT) {
		// Its supervisor is about to write the record, or has removed it.
		return false, nil
	}
	alive, err := dir.Alive(id)
	if errors.Is(err, session.ErrNoLock) || err == nil && !alive {
		return false, nil
	}
	if readErr != nil {
		err = readErr
	}
	return true, err
}

// How long the processes of a session may keep ps waiting. Each session that does so halves the time for later ones,
// down to the minimum. Reading a command line may take for ever (proc.Snapshot).
const (
	sessionTimeout    = 3 * time.Second
	minSessionTimeout = 50 * time.Millisecond
)

// measureInTime measures a session, unless one of its processes keeps its readers waiting. Such a session is shown by its
// record.
func measureInTime(rec session.Record, dir *session.Directory, now uint64, wait *time.Duration) Session {
	sharing := sharingOf(&rec, dir)
	var l Session
	if kernel.InTime(*wait, func() {
		var r proc.Reader
		l = measure(&r, rec, dir, now)
	}) {
		l.Sharing = sharing
		return l
	}
	*wait = max(*wait/2, minSessionTimeout)
	return Session{Record: rec, dir: dir, Sharing: sharing, GatewayState: proc.Unknown.String(), Unknown: "a process of it keeps its readers waiting"}
}

// sharingOf is what is known of a shared server, nil for any other. It makes the host's gateway that of the record.
func sharingOf(rec *session.Record, dir *session.Directory) *session.Sharing {
	if rec.Share == "" {
		return nil
	}
	s, err := dir.Place(rec.Share).Sharing()
	if err != nil || s.Host != rec.Gateway {
		// The host is gone, and the session soon will be.
		return nil
	}
	if !s.Gateway.Zero() {
		rec.Gateway = s.Gateway
	}
	return &s
}

// measure finds out what a session uses; now is in clock ticks since boot.
func measure(r *proc.Reader, rec session.Record, dir *session.Directory, now uint64) Session {
	gateway := r.Life(rec.Gateway)
	l := Session{Record: rec, dir: dir, GatewayState: gateway.String()}
	if now > rec.Supervisor.Start {
		l.AgeSeconds = int64((now - rec.Supervisor.Start) / proc.TicksPerSecond)
	}
	if gateway == proc.Alive {
		l.GatewayCommand = session.Line(r.Args(rec.Gateway.PID))
	}
	if r.Life(rec.Supervisor) != proc.Alive {
		return l
	}
	below, _ := r.Descendants(rec.Supervisor.PID)
	depth := map[int]int{rec.Supervisor.PID: -1}
	for _, p := range below {
		depth[p.PID] = depth[p.PPID] + 1
		if p.Dead() {
			continue
		}
		memory, ticks := r.Usage(p.PID)
		l.Procs++
		l.MemoryBytes += memory
		if now > p.Start {
			l.CPUPercent += 100 * float64(ticks) / float64(now-p.Start)
		}
		l.Tree = append(l.Tree, Process{p.PID, p.PPID, depth[p.PID], memory, session.Redact(r.Args(p.PID))})
	}
	return l
}
