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

// Membership says which processes belong to a session that has its supervisor, or its anchor.
type Membership struct {
	// Root is the child subreaper to which the session's orphans are reparented: the supervisor, or the anchor that
	// ends the session in its place. It is not a member itself.
	Root int
	// Session is the terminal session (setsid(2)) that the supervisor leads, where orphans do not fall to Root: whatever is in it
	// is a member too. It is zero elsewhere.
	Session proc.ID
	// Leaf is the session's cgroup, or nil.
	Leaf *cgroup.Leaf
	// Foreign are children of Root that are not the session's: those that it had before, as a shell started them and then executed
	// mcp-tether in its own place, and helpers of ours. Neither they nor what was seen below them are members.
	Foreign []proc.ID
	// Keep are shell patterns; a member whose command name or first argument matches one is left alone.
	Keep []string
	// Began is when the session began: it has not made a container that is older.
	Began time.Time
	People

	inspector
	// known are the processes that were seen to be more than members, for when their parent is gone.
	known map[proc.ID]role
	// roles are those of the last look, by pid.
	roles map[int]role
	// sparing says that one was seen that is kept, and whole that the leaf holds none.
	sparing, whole bool
}

// Killer ends the members. cleanup is how long conmon may clean up.
func (m *Membership) Killer(cleanup time.Duration) Killer {
	return Killer{Members: m.Members, Leaves: m.Leaves, Cleanup: cleanup}
}

// role is what a process is to a session.
type role uint8

const (
	ended   role = iota + 1
	foreign      // see Membership.Foreign
	member       // to be ended
	driven       // to be ended as well: a browser of a program, or something of it
	spared       // kept on purpose
	used         // kept as long as it is in use, or as what it belongs to
)

// Members lists the living processes of the session: those to end, and those to keep, which are the marked ones and what
// they started. The error says what could not be read; the lists hold what could. A process that could not be inspected is not kept.
func (m *Membership) Members() (end, kept []proc.Stat, err error) {
	found, err := m.reader.Descendants(m.Root)
	m.roles, m.whys = map[int]role{}, map[int]string{}
	found, serr := m.addSession(found)
	found, lerr := m.addLeaf(found)
	for _, p := range found {
		switch m.judge(p) {
		case member, driven:
			end = append(end, p)
		case spared:
			kept = append(kept, p)
		case ended, foreign, used:
		}
	}
	end, kept = m.spareUsed(found, end, kept)
	err = errors.Join(err, serr, lerr)
	// If the processes cannot be listed now, one to keep would have been seen earlier.
	m.whole = len(kept) == 0 && (err == nil || !m.sparing && len(m.Keep) == 0)
	return end, kept, err
}

// Leaves are the session's leaf, if the last look has found nothing to keep. The kernel makes no exception.
func (m *Membership) Leaves() []*cgroup.Leaf {
	if m.Leaf == nil || !m.whole {
		return nil
	}
	return []*cgroup.Leaf{m.Leaf}
}

// judge says which role a process has that is below Root, or in the leaf. Its parent was judged before.
func (m *Membership) judge(p proc.Stat) role {
	was, above := m.known[p.ID], m.roles[p.PPID]
	var (
		is  role
		why string
	)
	switch {
	case was == foreign, above == foreign, slices.Contains(m.Foreign, p.ID):
		is = foreign
	case p.Dead():
		is = ended
	default:
		is, why = m.purpose(p, was, above)
	}
	m.roles[p.PID] = is
	if is == foreign || is == spared || is == driven {
		m.remember(p, is, why)
	}
	return is
}

// Unseen reports whether the last look has met a living process that cannot be read (hidepid).
func (m *Membership) Unseen() bool { return m.reader.Unseen }

// addLeaf adds the processes that are in the cgroup but not below the root. A pid read from cgroup.procs is a number
// only: membership is read again after the start time.
func (m *Membership) addLeaf(found []proc.Stat) ([]proc.Stat, error) {
	if m.Leaf == nil {
		return found, nil
	}
	pids, err := m.Leaf.Procs()
	if cgroup.IsGone(err) {
		err = nil // A session around this one has ended before it.
	}
	known := make(map[int]bool, len(found))
	for _, p := range found {
		known[p.PID] = true
	}
	for _, pid := range pids {
		if known[pid] || pid == m.Root {
			continue
		}
		st, serr := m.reader.Stat(pid)
		if serr == nil && m.Leaf.Has(pid) {
			found = append(found, st)
		}
		if proc.Starved(serr) {
			err = serr // It may be there.
		}
	}
	return found, err
}

// addSession adds the processes of Session and what is below them. The kernel does not reuse its number while it has a process; another
// process with that number shows that it has none.
func (m *Membership) addSession(found []proc.Stat) ([]proc.Stat, error) {
	if m.Session.Zero() {
		return found, nil
	}
	all, err := m.reader.All()
	t, except := proc.NewTable(all), map[int]bool{m.Root: true, m.Session.PID: true}
	if leader, ok := t.Get(m.Session.PID); ok && leader.ID != m.Session {
		return found, err
	}
	for _, p := range found {
		except[p.PID] = true
	}
	var inside []int
	for _, p := range all {
		if p.Session == m.Session.PID {
			inside = append(inside, p.PID)
		}
	}
	slices.Sort(inside) // parents first, as a rule
	return append(found, t.Below(inside, except)...), err
}

// Strangers counts the processes below Root that the last look has found and that are not the session's.
func (m *Membership) Strangers() int {
	n := 0
	for _, is := range m.roles {
		if is == foreign {
			n++
		}
	}
	return n
}
