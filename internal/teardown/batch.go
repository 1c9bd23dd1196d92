package teardown

import (
	"os"
	"slices"
	"time"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// Group is a set of processes without a living anchor or supervisor, to be ended together.
type Group struct {
	// Seeds are the members found so far. A process below one of them belongs to the group too. So does one that joins
	// the leaf, or is born with the mark, while the group is ended.
	Seeds []proc.ID
	// Spared are processes that were found to be kept. What is below them is kept as well.
	Spared []proc.ID
	// Leaf is their cgroup, or nil.
	Leaf *cgroup.Leaf
	// Session is the id of the session, which is in the mark of a newborn; "" when there is none.
	Session string
	// Inherited says that processes outside of the session have its mark: then the mark of a newborn says nothing.
	Inherited bool
	// UID is the only user whose processes are touched; -1 for any.
	UID int
	// Keep are the patterns of processes to leave alone, with all that they started.
	Keep []string
	// KeepNothing ends them all the same, and those with KeepMark.
	KeepNothing bool
	// Began is when the session began, zero if that is not known. A container that is older is not the session's.
	Began time.Time
	// Survivors are what is left in the end.
	Survivors []Survivor

	batch *Batch
	seen  map[proc.ID]bool
	// inLeaf are the processes that the last look has found in the leaf, and members those that it has found to end, by pid.
	inLeaf  []int
	members map[int]bool
}

// Batch ends several groups at once, with one look at the process table for each round.
type Batch struct {
	Groups []*Group
	// Since is when the look at the host began that has found the groups, in clock ticks since boot. Processes that
	// started later were not judged, and are asked for their mark.
	Since uint64

	inspector
	killer Killer
	marks  map[proc.ID]string
	kept   map[proc.ID]bool
}

// roundPause is the time between two looks at the process table.
const roundPause = 20 * time.Millisecond

// End asks every member of every group to end, and waits up to the term grace. Then it kills until all are gone or the
// kill timeout has passed. It fills in the groups' outcomes. A look that failed is made again in the next round, and nothing is
// signalled meanwhile. The error says that the process table cannot be read in the end.
func (b *Batch) End(g Grace) error {
	b.start()
	b.killer.Cleanup = g.Kill / 2
	b.killer.until(time.Now().Add(g.Term), b.killer.Ask)
	for deadline := time.Now().Add(g.Kill); ; {
		b.killer.until(deadline, b.killer.Kill)
		// A tree that forks may have been missed by the looks before, and be found by this one.
		survivors, _, err := b.killer.Survivors()
		if err == nil && len(survivors) > 0 && time.Now().Before(deadline) {
			continue
		}
		for _, gr := range b.Groups {
			gr.Survivors = slices.DeleteFunc(slices.Clone(survivors), func(s Survivor) bool { return !gr.members[s.PID] })
		}
		return err
	}
}

func (b *Batch) start() {
	b.marks, b.kept, b.reader.Apart = map[proc.ID]string{}, map[proc.ID]bool{}, true
	b.killer = Killer{Members: b.members, Leaves: b.leaves}
	for _, gr := range b.Groups {
		gr.batch, gr.seen = b, map[proc.ID]bool{}
		for _, id := range gr.Seeds {
			gr.seen[id] = true
		}
		for _, id := range gr.Spared {
			b.kept[id] = true
		}
	}
}

// How many looks in a row must find no member. One proves nothing about a tree that forks: the processes that were there have
// ended, and those that are there now started after the look. About a tree that was seen to fork, even two prove little,
// because the table is read name by name.
const (
	emptyLooks       = 2
	emptyLooksOfFork = 8
)

// until repeats rounds until several in a row find no member, or the time is up.
func (k *Killer) until(deadline time.Time, round func() ([]Sent, error)) {
	for empty := 0; ; {
		_, err := round()
		if empty++; k.left > 0 || err != nil {
			empty = 0
		}
		if empty >= emptyLooksOfFork || empty >= emptyLooks && !k.forks || !time.Now().Before(deadline) {
			return
		}
		time.Sleep(roundPause)
	}
}

// members looks for the living members of all groups.
func (b *Batch) members() (end, kept []proc.Stat, err error) {
	b.unread = nil
	all, err := b.reader.All()
	if err != nil {
		return nil, nil, err
	}
	return b.judge(all)
}

// judge lists the living members of all groups: those seen before, and all processes below them now. It lists none after a process
// that could not be inspected, as nobody knows what is to be kept.
func (b *Batch) judge(all []proc.Stat) (end, kept []proc.Stat, err error) {
	t, born := proc.NewTable(all), b.born(all)
	except := untouched(t)
	reached := make([][]proc.Stat, len(b.Groups))
	for i, gr := range b.Groups {
		reached[i] = t.Below(gr.roots(t, born), except)
		for _, s := range reached[i] {
			// The answer yes is final.
			if !s.Dead() && !b.kept[s.ID] && !gr.KeepNothing && (b.keeps(s, gr.Keep) || b.holdsOlder(s, gr.Began)) {
				b.kept[s.ID] = true
			}
		}
	}
	spared := b.belowKept(t)
	for i, gr := range b.Groups {
		gr.members = map[int]bool{}
		for _, s := range reached[i] {
			switch {
			case s.Dead():
			case spared[s.PID]:
				kept = append(kept, s)
			case gr.allowed(s):
				gr.members[s.PID] = true
				gr.seen[s.ID] = true // The next look finds it, though its parent may have ended.
				end = append(end, s)
			}
		}
	}
	if b.unread != nil {
		return nil, nil, b.unread
	}
	return end, kept, nil
}

// belowKept are the kept processes and all below them, by pid. They stay kept when their parent has ended.
func (b *Batch) belowKept(t proc.Table) map[int]bool {
	var roots []int
	for id := range b.kept {
		if t.Has(id) {
			roots = append(roots, id.PID)
		}
	}
	spared := map[int]bool{}
	for _, s := range t.Below(roots, nil) {
		spared[s.PID], b.kept[s.ID] = true, true
	}
	return spared
}

// untouched are the caller and its ancestors, which are never members. A pass may be called from a shell that outlived its session.
func untouched(t proc.Table) map[int]bool {
	pids := map[int]bool{}
	for s, ok := t.Get(os.Getpid()); ok && !pids[s.PID]; s, ok = t.Parent(s) {
		pids[s.PID] = true
	}
	return pids
}

// leaves are those in which everything is to be ended. A process of another pid namespace is not known.
func (b *Batch) leaves() (out []*cgroup.Leaf) {
	for _, gr := range b.Groups {
		outside := func(pid int) bool { return !gr.members[pid] }
		if b.unread == nil && len(gr.inLeaf) > 0 && !slices.ContainsFunc(gr.inLeaf, outside) && !gr.Leaf.HasUnseen() {
			out = append(out, gr.Leaf)
		}
	}
	return out
}

// born are the processes with a mark that have started since Since, by session.
func (b *Batch) born(all []proc.Stat) map[string][]int {
	born := map[string][]int{}
	for _, s := range all {
		if id := b.markOf(s); id != "" {
			born[id] = append(born[id], s.PID)
		}
	}
	return born
}

// markOf reads the mark of a process that has started since Since, once. Before execve(2) the process shows its parent's.
func (b *Batch) markOf(s proc.Stat) string {
	if s.Start < b.Since || s.Dead() {
		return ""
	}
	if id, ok := b.marks[s.ID]; ok || !isOurs(s.PID) {
		return id
	}
	v, err := b.reader.Env(s, session.EnvID)
	if err != nil {
		return ""
	}
	b.marks[s.ID] = v[0]
	return v[0]
}

// isOurs reports whether a process is the user's own. What another user's process says of itself is not believed.
func isOurs(pid int) bool {
	uid, err := proc.UID(pid)
	return err == nil && uid == os.Getuid()
}

// roots are the processes of a table from which to look for members.
func (gr *Group) roots(t proc.Table, born map[string][]int) []int {
	var pids []int
	for id := range gr.seen {
		if t.Has(id) {
			pids = append(pids, id.PID)
		}
	}
	if gr.Session != "" && !gr.Inherited {
		pids = append(pids, born[gr.Session]...)
	}
	if gr.inLeaf = nil; gr.Leaf == nil {
		return pids
	}
	inside, _ := gr.Leaf.Procs()
	for _, pid := range inside {
		now, err := gr.batch.reader.Stat(pid)
		gr.batch.note(err)
		if err != nil || now.Dead() {
			continue
		}
		gr.inLeaf = append(gr.inLeaf, pid)
		// The table is older. What it knows by this pid, and below it, may be another process.
		if !t.Has(now.ID) {
			if !gr.Leaf.Has(pid) {
				continue
			}
			t.Put(now)
		}
		pids = append(pids, pid)
	}
	return pids
}

func (gr *Group) allowed(s proc.Stat) bool {
	if gr.UID < 0 {
		return true
	}
	uid, err := proc.UID(s.PID)
	return err == nil && uid == gr.UID
}

// RemoveLeaf removes the leaf of a group that was ended, or that holds nothing to end. See Killer.RemoveLeaf.
func (gr *Group) RemoveLeaf(tries int) error {
	if gr.batch == nil {
		return gr.Leaf.RemoveSoon(tries)
	}
	return gr.batch.killer.RemoveLeaf(gr.Leaf, tries)
}
