package teardown

import (
	"errors"
	"slices"
	"strings"

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
	// own place. Neither they nor what is below them belong to it.
	Foreign []proc.ID
	// Keep are shell patterns; a member whose command name or first argument matches one is left alone.
	Keep []string

	reader proc.Reader
	kept   map[proc.ID]bool
	asked  map[proc.ID]bool
}

// Members lists the living processes of the session, without those to keep, and the ones to keep: what was marked, and
// what it started. The error says what could not be read; the lists hold what could.
func (s *Scope) Members() (members, kept []proc.Stat, err error) {
	found, err := s.reader.Descendants(s.Root)
	found, lerr := s.addLeaf(found)
	below, foreign := map[int]bool{}, map[int]bool{}
	for _, p := range found {
		switch {
		case foreign[p.PPID] || slices.Contains(s.Foreign, p.ID):
			foreign[p.PID] = true
		case p.Dead():
		case below[p.PPID] || s.keeps(p):
			below[p.PID] = true
			kept = append(kept, p)
		default:
			members = append(members, p)
		}
	}
	return members, kept, errors.Join(err, lerr)
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
	if s.kept == nil {
		s.kept = map[proc.ID]bool{}
	}
	s.kept[p.ID] = true
	return true
}

func (s *Scope) matchesKeep(p proc.Stat) bool {
	if len(s.Keep) == 0 {
		return false
	}
	names := []string{p.Comm}
	if args := s.reader.Args(p.PID); len(args) > 0 {
		names = append(names, args[0], args[0][strings.LastIndexByte(args[0], '/')+1:])
	}
	for _, pattern := range s.Keep {
		for _, name := range names {
			if Match(pattern, name) {
				return true
			}
		}
	}
	return false
}
