package teardown

import (
	"errors"
	"slices"
	"time"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// KeepMark in the environment of a descendant says that it is meant to outlive the session; KeepName is the name of
// that variable.
const (
	KeepName = "MCP_TETHER_KEEP"
	KeepMark = KeepName + "=1"
)

// Scope says which processes belong to a session.
type Scope struct {
	// Root is the child subreaper to which the session's orphans are reparented: the supervisor, or the anchor that
	// ends the session in its place. It is not a member itself.
	Root int
	// Leaf is the session's cgroup, or nil.
	Leaf *cgroup.Leaf
	// Foreign are children that Root had before the session: a shell started them and then executed mcp-tether in its own
	// place. Neither they nor their descendants are members, as long as they were seen below them.
	Foreign []proc.ID
	// Helpers lists processes that Root has started to do its own work, each the leader of a session (setsid(2)). Neither
	// they, nor what they have started, nor other processes of those sessions are members. It may be nil.
	Helpers func() []proc.ID
	// Keep are shell patterns; a member whose command name or first argument matches one is left alone.
	Keep []string
	// Began is when the session began: it has not made a container that is older.
	Began time.Time
	// Cleanup is how long conmon may clean up after its container, once the others are killed; at most MaxCleanup.
	Cleanup time.Duration

	inspector
	kept  map[proc.ID]bool
	asked map[proc.ID]bool
	// askedAt is when the members were asked first, in clock ticks.
	askedAt uint64
	// cleaning is the time that conmon has.
	cleaning cleanup
	// foreign are the processes seen below a foreign child or a helper.
	foreign map[proc.ID]bool
	// last is the last look.
	last look
}

// look is what one look at the processes of a session has found.
type look struct {
	// below are the kept processes, and foreign those that are not the session's.
	below, foreign map[int]bool
	// helpers are the sessions (setsid(2)) of Root's helpers.
	helpers map[int]bool
	// dead counts Root's children that had ended.
	dead int
}

// role is what a process is to a session.
type role uint8

const (
	other  role = iota // foreign or dead
	member             // to be ended
	spared             // kept on purpose
)

// Members lists the living processes of the session: those to end, and those to keep, which are the marked ones and what
// they started. The error says what could not be read; the lists hold what could. A process that could not be inspected is not kept.
func (s *Scope) Members() (members, kept []proc.Stat, err error) {
	found, err := s.reader.Descendants(s.Root)
	s.last = look{below: map[int]bool{}, foreign: map[int]bool{}}
	found, lerr := s.addLeaf(found)
	// Asked after the table was read: each helper in the table is known by then.
	s.last.helpers = s.helpers(found)
	for _, p := range found {
		switch s.judge(p) {
		case member:
			members = append(members, p)
		case spared:
			kept = append(kept, p)
		case other:
		}
	}
	return members, kept, errors.Join(err, lerr)
}

// judge says which role a process has that is below Root, or in the leaf. Its parent was judged before.
func (s *Scope) judge(p proc.Stat) role {
	l := &s.last
	foreign := l.foreign[p.PPID] || l.helpers[p.Session] || l.helpers[p.PID] || s.isForeign(p) // a helper may not have its own session yet
	switch {
	case foreign:
		l.foreign[p.PID] = true
		s.setForeign(p.ID)
	case p.Dead():
		if p.PPID == s.Root {
			l.dead++
		}
	case l.below[p.PPID] || s.keeps(p):
		l.below[p.PID] = true
		s.remember(p.ID)
		return spared
	default:
		return member
	}
	return other
}

// helpers are the sessions (setsid(2)) of Root's helpers. The kernel does not reuse a session's number while the session
// has a process (pid_namespaces(7) apart). So the number tells what a helper started, even when the helper is gone. If a
// new process has the number as its pid, the session is not the helper's any more.
func (s *Scope) helpers(found []proc.Stat) map[int]bool {
	if s.Helpers == nil {
		return nil
	}
	sessions := map[int]bool{}
	for _, id := range s.Helpers() {
		reused := func(p proc.Stat) bool { return p.PID == id.PID && p.Start != id.Start }
		sessions[id.PID] = !slices.ContainsFunc(found, reused)
	}
	return sessions
}

// Dead counts the children of Root that had ended at the last look. What they have left is reparented to Root before they end, so a
// second look finds that.
func (s *Scope) Dead() int { return s.last.dead }

// Unseen reports whether the last look has met a living process that cannot be read (hidepid).
func (s *Scope) Unseen() bool { return s.reader.Unseen }

// addLeaf adds the processes that are in the cgroup but not below the root. A pid read from cgroup.procs is a number
// only: membership is read again after the start time.
func (s *Scope) addLeaf(found []proc.Stat) ([]proc.Stat, error) {
	if s.Leaf == nil {
		return found, nil
	}
	pids, err := s.Leaf.Procs()
	if cgroup.IsGone(err) {
		err = nil // A session around this one has ended before it.
	}
	known := make(map[int]bool, len(found))
	for _, p := range found {
		known[p.PID] = true
	}
	for _, pid := range pids {
		if known[pid] || pid == s.Root {
			continue
		}
		st, serr := s.reader.Stat(pid)
		if serr == nil && s.isInLeaf(st) {
			found = append(found, st)
		}
		if proc.Starved(serr) {
			err = serr // It may be there.
		}
	}
	return found, err
}

// keeps reports whether a process is to be kept. The answer yes is final, even if the process rewrites its environment.
func (s *Scope) keeps(p proc.Stat) bool {
	if s.kept[p.ID] {
		return true
	}
	if !s.inspector.keeps(p, s.Keep, s.Began) {
		return false
	}
	s.remember(p.ID)
	return true
}

// remember notes that a process is kept, for when its parent is gone.
func (s *Scope) remember(id proc.ID) {
	if s.kept == nil {
		s.kept = map[proc.ID]bool{}
	}
	s.kept[id] = true
}

// isForeign reports whether a process was there before the session, or was seen below one that is not the session's.
func (s *Scope) isForeign(p proc.Stat) bool {
	return s.foreign[p.ID] || slices.Contains(s.Foreign, p.ID)
}

// Strangers counts the processes below Root that the last look has found and that are not the session's.
func (s *Scope) Strangers() int { return len(s.last.foreign) }

// isInLeaf reports whether a process is in the leaf.
func (s *Scope) isInLeaf(p proc.Stat) bool {
	if s.Leaf == nil {
		return false
	}
	in, err := s.Leaf.Holds(p.PID)
	return in && err == nil
}

// setForeign remembers a foreign process, for when its parent is gone.
func (s *Scope) setForeign(id proc.ID) {
	if s.foreign == nil {
		s.foreign = map[proc.ID]bool{}
	}
	s.foreign[id] = true
}
