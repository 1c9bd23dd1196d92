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
	m := meter{r: proc.Reader{Apart: true}}
	here, err := m.r.ReadHost()
	if err != nil {
		return nil, err
	}
	if m.now, err = proc.Now(); err != nil {
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
			out = append(out, m.living(s))
		case s.State == session.StateKept:
			out = append(out, m.left(s)...)
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

// meter measures what sessions use; now is in clock ticks since boot.
type meter struct {
	r   proc.Reader
	now uint64
}

// living is a living session.
func (m *meter) living(s *session.Stored) Session {
	l := Session{Record: s.Record, dir: s.Dir}
	l.Sharing = sharingOf(&l.Record, s.Dir)
	m.begin(&l, l.Supervisor)
	if l.GatewayState == proc.Alive.String() {
		if p, err := m.r.Stat(l.Gateway.PID); err == nil {
			l.GatewayCommand = session.Line(m.args(&l, p))
		}
	}
	if m.r.Life(l.Supervisor) != proc.Alive {
		return l
	}
	l.Leaf = leafOf(&l.Record)
	m.addBelow(&l, l.Supervisor.PID, -1)
	return l
}

// begin notes how long a process of a session has been there, and whether its gateway is.
func (m *meter) begin(l *Session, first proc.ID) {
	l.GatewayState = m.r.Life(l.Gateway).String()
	if m.now > first.Start {
		l.AgeSeconds = int64((m.now - first.Start) / proc.TicksPerSecond)
	}
}

// args is the command line of a process of a session. One that keeps its readers waiting has none.
func (m *meter) args(l *Session, p proc.Stat) []string {
	words, err := m.r.Args(p)
	if errors.Is(err, proc.ErrKeptWaiting) {
		l.Unknown = "a process of it keeps its readers waiting"
	}
	return words
}

// addBelow adds the processes below a process of this depth.
func (m *meter) addBelow(l *Session, pid, at int) {
	below, _ := m.r.Descendants(pid)
	depth := map[int]int{pid: at}
	for _, p := range below {
		depth[p.PID] = depth[p.PPID] + 1
		m.add(l, p, depth[p.PID])
	}
}

// add adds a process.
func (m *meter) add(l *Session, p proc.Stat, depth int) {
	if p.Dead() {
		return
	}
	memory, ticks, _ := m.r.Usage(p.PID)
	l.Procs++
	l.MemoryBytes += memory
	if m.now > p.Start {
		l.CPUPercent += 100 * float64(ticks) / float64(m.now-p.Start)
	}
	l.Tree = append(l.Tree, Process{p.PID, p.PPID, depth, memory, session.Redact(m.args(l, p))})
}
