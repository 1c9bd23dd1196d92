package teardown

import (
	"errors"
	"slices"

	"mcp-tether/cgroup"
	"mcp-tether/proc"
)

// KeepMark in the environment of a descendant says that it is meant to outlive the session; KeepName is its name.
const (
	KeepName = "MCP_TETHER_KEEP"
	KeepMark = KeepName + "=1"
)

// Scope says who belongs to a session.
type Scope struct {
	// Root is the subreaper to which everything orphaned in the session falls: the supervisor, or the anchor that
	// recovers in its place. It is not a member itself.
	Root int
	// Leaf is the session's cgroup, or nil.
	Leaf *cgroup.Leaf
	// Foreign are children that Root had before the session: what a shell started before it executed mcp-tether in its
	// own place. Neither they nor what is below them belong to it. An orphan that falls to Root may be theirs as well
	// then: it belongs to the session only if it is in the leaf or carries Mark, if that is set.
	Foreign []proc.ID
	// Group is a process group that only the session is in, or 0. It is signalled where nothing can be listed.
	Group int
	// Server is the child that the session started, and Mark the assignment in its environment; both matter only beside
	// foreign children.
	Server int
	Mark   string
	// Helpers lists processes that Root itself has started to do its work, each the leader of a session. Neither they nor
	// anybody in their sessions is a member. It may be nil.
	Helpers func() []proc.ID
	// Keep are shell patterns; a member whose command name or first argument matches one is left alone.
	Keep []string

	reader proc.Reader
	kept   map[proc.ID]bool
	asked  map[proc.ID]bool
	// askedAt is when they were asked first, in clock ticks.
	askedAt uint64
	// foreign are those seen below a foreign child.
	foreign map[proc.ID]bool
}

// Members lists the living processes of the session, without those to keep, and the ones to keep: what was marked, and
// what it started. The error says what could not be read; the lists hold what could.
func (s *Scope) Members() (members, kept []proc.Stat, err error) {
	found, err := s.reader.Descendants(s.Root)
	found, lerr := s.addLeaf(found)
	below, foreign := map[int]bool{}, map[int]bool{}
	// Asked after the table was read: whoever is in it is known by then.
	helpers := s.helpers(found)
	for _, p := range found {
		switch {
		case foreign[p.PPID] || helpers[p.Session] || s.isForeign(p):
			foreign[p.PID] = true
			s.setForeign(p.ID)
		case p.Dead():
		case below[p.PPID] || s.keeps(p):
			below[p.PID] = true
			s.remember(p.ID)
			kept = append(kept, p)
		default:
			members = append(members, p)
		}
	}
	return members, kept, errors.Join(err, lerr)
}

// helpers are the sessions of Root's helpers. The kernel gives a session's number to nobody else while anybody is in it
// (pid_namespaces(7) apart), so what a helper started is known by it, also when the helper is gone. A number that a new
// process leads is not a helper's any more.
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

// Next is the scope of the next server's tree, under the same root. What is kept and what is foreign stays so.
func (s *Scope) Next() Scope {
	return Scope{Root: s.Root, Foreign: s.Foreign, Mark: s.Mark, Keep: s.Keep, kept: s.kept, foreign: s.foreign}
}

// addLeaf adds those that are in the cgroup but not below the root. A pid read from cgroup.procs is a number only:
// membership is read again after the start time.
func (s *Scope) addLeaf(found []proc.Stat) ([]proc.Stat, error) {
	if s.Leaf == nil {
		return found, nil
	}
	pids, err := s.Leaf.Procs()
	known := make(map[int]bool, len(found))
	for _, p := range found {
		known[p.PID] = true
	}
	for _, pid := range pids {
		if known[pid] || pid == s.Root {
			continue
		}
		if st, serr := s.reader.Stat(pid); serr == nil && s.Leaf.Has(pid) {
			found = append(found, st)
		}
	}
	return found, err
}

// keeps looks for the mark. Once found it stays, also when the process rewrites its environment later.
func (s *Scope) keeps(p proc.Stat) bool {
	if s.kept[p.ID] {
		return true
	}
	if !s.reader.HasEnv(p.PID, KeepMark) && !s.matchesKeep(p) {
		return false
	}
	s.remember(p.ID)
	return true
}

// remember that a process is kept, also when its parent is gone later.
func (s *Scope) remember(id proc.ID) {
	if s.kept == nil {
		s.kept = map[proc.ID]bool{}
	}
	s.kept[id] = true
}

// isForeign reports whether a process was there before the session, or is an orphan that cannot be told from one that
// belongs to such.
func (s *Scope) isForeign(p proc.Stat) bool {
	if len(s.Foreign) == 0 {
		return false
	}
	if s.foreign[p.ID] || slices.Contains(s.Foreign, p.ID) {
		return true
	}
	if s.Mark == "" || p.PPID != s.Root || p.PID == s.Server || s.Leaf != nil && s.Leaf.Has(p.PID) {
		return false
	}
	return !s.reader.HasEnv(p.PID, s.Mark)
}

// setForeign remembers a foreign process, also when its parent is gone later.
func (s *Scope) setForeign(id proc.ID) {
	if s.foreign == nil {
		s.foreign = map[proc.ID]bool{}
	}
	s.foreign[id] = true
}

func (s *Scope) matchesKeep(p proc.Stat) bool {
	if len(s.Keep) == 0 {
		return false
	}
	return KeptBy(s.Keep, p.Comm, s.reader.Args(p.PID))
}
