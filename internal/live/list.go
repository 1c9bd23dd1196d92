package live

import (
	"errors"
	"os"
	"path"
	"sort"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// list finds out what living sessions use, eldest first. It calls note for those that live, or may, and could not be read.
func list(stored []session.Stored, note func(string)) ([]Session, error) {
	r := proc.Reader{Apart: true}
	here, err := r.ReadHost()
	if err != nil {
		return nil, err
	}
	now, err := proc.Now()
	if err != nil {
		return nil, err
	}
	var out []Session
	for i := range stored {
		s := &stored[i]
		isRead := s.Version != 0
		switch {
		case isRead && (s.Host != here || s.UID != os.Getuid()), !isRead && s.Unread == nil:
			// Not ours, or its supervisor is about to write the record.
		case s.Held && s.Unread != nil:
			note("session " + s.ID + ": " + s.Unread.Error())
		case s.Held:
			out = append(out, measure(&r, s.Record, s.Dir, now))
		case s.State == session.StateKept:
			out = append(out, left(&r, s.Record, s.Dir, now)...)
		}
	}
	// A generic sort of so large a type would add eight kilobytes to the program.
	sort.SliceStable(out, func(i, j int) bool { return out[i].Started.Before(out[j].Started) })
	return fold(out), nil
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

// leafOf is what the cgroup of a session uses, nil where it has no limit. The record may name any.
func leafOf(rec *session.Record) *cgroup.Use {
	if path.Base(rec.Cgroup) != cgroup.Prefix+rec.ID {
		return nil
	}
	leaf, err := cgroup.Open(rec.Cgroup)
	if err != nil {
		return nil
	}
	defer leaf.Close()
	use := leaf.Use()
	if !use.Limited() {
		return nil
	}
	return &use
}

// measure finds out what a session uses; now is in clock ticks since boot.
// A process that keeps its readers waiting has no command line.
func measure(r *proc.Reader, rec session.Record, dir *session.Directory, now uint64) Session {
	sharing := sharingOf(&rec, dir)
	gateway := r.Life(rec.Gateway)
	l := Session{Record: rec, dir: dir, GatewayState: gateway.String(), Sharing: sharing}
	args := func(p proc.Stat) []string {
		words, err := r.Args(p)
		if errors.Is(err, proc.ErrKeptWaiting) {
			l.Unknown = "a process of it keeps its readers waiting"
		}
		return words
	}
	if now > rec.Supervisor.Start {
		l.AgeSeconds = int64((now - rec.Supervisor.Start) / proc.TicksPerSecond)
	}
	if gateway == proc.Alive {
		if p, err := r.Stat(rec.Gateway.PID); err == nil {
			l.GatewayCommand = session.Line(args(p))
		}
	}
	if r.Life(rec.Supervisor) != proc.Alive {
		return l
	}
	l.Leaf = leafOf(&rec)
	l.addBelow(r, rec.Supervisor.PID, -1, now, args)
	return l
}

// addBelow adds the processes below a process of this depth.
func (l *Session) addBelow(r *proc.Reader, pid, at int, now uint64, args func(proc.Stat) []string) {
	below, _ := r.Descendants(pid)
	depth := map[int]int{pid: at}
	for _, p := range below {
		depth[p.PID] = depth[p.PPID] + 1
		l.add(r, p, depth[p.PID], now, args)
	}
}

// add adds a process.
func (l *Session) add(r *proc.Reader, p proc.Stat, depth int, now uint64, args func(proc.Stat) []string) {
	if p.Dead() {
		return
	}
	memory, ticks, _ := r.Usage(p.PID)
	l.Procs++
	l.MemoryBytes += memory
	if now > p.Start {
		l.CPUPercent += 100 * float64(ticks) / float64(now-p.Start)
	}
	l.Tree = append(l.Tree, Process{p.PID, p.PPID, depth, memory, session.Redact(args(p))})
}
