package teardown

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// Group is a set of processes without a living anchor or supervisor, to be ended together.
type Group struct {
	// Seeds are the members found so far. A process below one of them belongs to the group too. So does one that joins
	// the leaf, or is born with the mark, while the group is ended.
	Seeds []proc.ID
	// Leaf is their cgroup, or nil.
	Leaf *cgroup.Leaf
	// Mark is the variable of the environment that names the session, and Session its value; "" when there is none.
	Mark, Session string
	// Inherited says that processes outside of the session have its mark: then the mark of a newborn says nothing.
	Inherited bool
	// UID is the only user whose processes are touched; -1 for any.
	UID int
	// Keep are the patterns of processes to leave alone, with all that they started.
	Keep []string
	// Began is when the session began, zero if that is not known.
	Began time.Time
	// Survivors and Kept are the outcome.
	Survivors []Survivor
	Kept      []proc.Stat

	batch *Batch
	seen  map[proc.ID]bool
	asked map[proc.ID]bool
	spare map[proc.ID]bool // what is known of whether a process is kept
	// marked are the processes that were asked for the session's mark since the last look, and their answers.
	marked map[proc.ID]bool
	// left is how many living members the last look has found.
	left int
}

// Batch ends several groups at once, with one look at the process table for each round.
type Batch struct {
	Groups []*Group
	// Since is when the look at the host began that has found the groups, in clock ticks since boot. Processes that
	// started later were not judged, and are asked for their mark.
	Since uint64

	inspector
	// askedAt is when the first round of SIGTERM was over, in clock ticks.
	askedAt uint64
	marks   map[proc.ID]string
	// forks says that a member has started while the batch ends them.
	forks bool
	// within says that the caller has the mark of a group, or is in its leaf, and so is what it starts.
	within bool
	// cleans says that a member cleans up after a container, which may take as long as limit says.
	cleans   bool
	cleaning cleanup
	limit    time.Duration
}

// roundPause is the time between two looks at the process table.
const roundPause = 20 * time.Millisecond

// End asks every member of every group to end, and waits up to the term grace. Then it kills until all are gone or the
// kill timeout has passed. It fills in the groups' outcomes. A look that failed is made again in the next round, and nothing is
// signalled meanwhile. The error says that the process table cannot be read in the end.
func (b *Batch) End(g Grace) error {
	b.start()
	b.limit = g.Kill / 2
	b.until(time.Now().Add(g.Term), b.ask)
	for deadline := time.Now().Add(g.Kill); ; {
		b.until(deadline, b.kill)
		// A tree that forks may have been missed by the looks before, and be found by this one.
		if survivors, err := b.conclude(); err != nil || survivors == 0 || !time.Now().Before(deadline) {
			return err
		}
	}
}

func (b *Batch) start() {
	b.marks, b.reader.Apart = map[proc.ID]string{}, true
	for _, gr := range b.Groups {
		gr.batch = b
		gr.start()
		b.within = b.within || gr.holdsCaller()
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
func (b *Batch) until(deadline time.Time, round func() (left int, err error)) {
	for empty := 0; ; {
		left, err := round()
		if empty++; left > 0 || err != nil {
			empty = 0
		}
		if empty >= emptyLooksOfFork || empty >= emptyLooks && !b.forks || !time.Now().Before(deadline) {
			return
		}
		time.Sleep(roundPause)
	}
}

// kill is a round of SIGKILL. SIGSTOP comes before it, so that no member forks away. left counts the members that it has found.
func (b *Batch) kill() (left int, err error) {
	if left, waits, err := b.killOthers(); waits || err != nil {
		return left, err
	}
	thaw := b.freeze()
	defer thaw()
	members, err := b.members()
	if err != nil {
		return 0, err
	}
	signalAll(&b.reader, stopAll(&b.reader, members, b.members), unix.SIGKILL)
	for _, gr := range b.Groups {
		left += gr.left
	}
	return left, nil
}

// members looks for the members of all groups that are to be killed.
func (b *Batch) members() (all []proc.Stat, err error) {
	t, err := b.look()
	if err != nil {
		return nil, err
	}
	for _, gr := range b.Groups {
		// What was no process to keep may have executed one since.
		maps.DeleteFunc(gr.spare, func(_ proc.ID, kept bool) bool { return !kept })
		members := gr.members(t)
		b.noteForks(members)
		all = append(all, members...)
	}
	return all, b.unread
}

// noteForks notes that a member has started since all were asked to end.
func (b *Batch) noteForks(members []proc.Stat) {
	b.forks = b.forks || slices.ContainsFunc(members, func(m proc.Stat) bool { return b.askedAt > 0 && m.Start > b.askedAt })
}

// ask is a round of SIGTERM to the members that were not asked yet. conmon would pass the signal on to its container, which is
// asked itself. It is asked where it is alone from the start: its container is another user's. One that is alone later cleans up.
func (b *Batch) ask() (left int, err error) {
	t, err := b.look()
	if err != nil {
		return 0, err
	}
	for _, gr := range b.Groups {
		members := gr.members(t)
		left += gr.left
		b.noteForks(members)
		cleans := cleaners(members)
		b.cleans = b.cleans || len(cleans) > 0
		alone := b.askedAt == 0 && len(cleans) == len(members)
		var fresh []proc.Stat
		for _, m := range members {
			// A process that starts after the first round may be a member's answer to SIGTERM, to clean up.
			if !gr.asked[m.ID] && (!cleans[m.PID] || alone) && (b.askedAt == 0 || m.Start < b.askedAt) {
				gr.asked[m.ID] = true
				fresh = append(fresh, m)
			}
		}
		signalAll(&b.reader, fresh, unix.SIGTERM, unix.SIGCONT)
	}
	if b.askedAt == 0 {
		b.askedAt, err = proc.Now()
	}
	return left, errors.Join(err, b.unread)
}

// freeze freezes the leaves that have members, until thaw is called. So no member forks between the look and the kill;
// a frozen process can be killed. A leaf that holds the caller itself stays as it is.
func (b *Batch) freeze() (thaw func()) {
	var frozen []*cgroup.Leaf
	for _, gr := range b.Groups {
		if gr.Leaf == nil || gr.left == 0 {
			continue
		}
		// A process that froze itself could never thaw.
		if inside, err := gr.Leaf.Holds(os.Getpid()); inside || err != nil {
			continue
		}
		frozen = append(frozen, gr.Leaf)
		if err := gr.Leaf.Freeze(true); err == nil {
			gr.Leaf.AwaitFrozen()
		}
	}
	return func() {
		for _, leaf := range frozen {
			_ = leaf.Freeze(false)
		}
	}
}

// conclude names the survivors, and counts them.
func (b *Batch) conclude() (left int, err error) {
	t, err := b.look()
	for _, gr := range b.Groups {
		again := false
		gr.Survivors = survivors(&b.reader, func() []proc.Stat {
			if again && err == nil {
				t, err = b.look()
			}
			again, gr.Kept = true, nil
			return gr.members(t)
		})
		left += len(gr.Survivors)
	}
	return left, errors.Join(err, b.unread)
}

// Expel moves the kept processes of a group that was ended out of its leaf.
func (gr *Group) Expel() {
	Expel(gr.Leaf, gr.Kept, func() []proc.Stat {
		gr.Kept = nil
		if t, err := gr.batch.look(); err == nil {
			gr.members(t)
		}
		return gr.Kept
	})
}

// snapshot is one look at all processes.
type snapshot struct {
	byPID    map[int]proc.Stat
	children map[int][]int
	// born are the processes with a mark that started since Batch.Since, by session.
	born map[string][]int
	// own are the caller and its ancestors, which are never touched.
	own map[int]bool
	// below are the caller and what it has started to ask engines with, if it is within a group.
	below map[int]bool
}

func (b *Batch) look() (snapshot, error) {
	b.unread = nil
	all, err := b.reader.All()
	if err != nil {
		return snapshot{}, err
	}
	t := snapshot{make(map[int]proc.Stat, len(all)), make(map[int][]int, len(all)), map[string][]int{}, map[int]bool{}, map[int]bool{}}
	for _, s := range all {
		t.byPID[s.PID] = s
	}
	for _, s := range all {
		if up, ok := t.byPID[s.PPID]; ok && up.Start <= s.Start {
			t.children[s.PPID] = append(t.children[s.PPID], s.PID)
		}
		if id := b.markOf(s); id != "" {
			t.born[id] = append(t.born[id], s.PID)
		}
	}
	for pid := os.Getpid(); pid > 0 && !t.own[pid]; pid = t.byPID[pid].PPID {
		t.own[pid] = true
	}
	if b.within {
		t.addBelow(os.Getpid())
	}
	return t, nil
}

func (t *snapshot) addBelow(pid int) {
	if t.below[pid] {
		return
	}
	t.below[pid] = true
	for _, child := range t.children[pid] {
		t.addBelow(child)
	}
}

// markOf reads the mark of a process that has started since Since, once. Before execve(2) the process shows its parent's.
func (b *Batch) markOf(s proc.Stat) string {
	if s.Start < b.Since || s.Dead() || len(b.Groups) == 0 || b.Groups[0].Mark == "" {
		return ""
	}
	if id, ok := b.marks[s.ID]; ok {
		return id
	}
	if !isOurs(s.PID) {
		return ""
	}
	v, err := b.reader.Env(s, b.Groups[0].Mark)
	switch {
	case err == nil:
		b.marks[s.ID] = v[0]
	case errors.Is(err, proc.ErrKeptWaiting):
		b.marks[s.ID] = "" // It is not asked again.
	}
	return b.marks[s.ID]
}

// isOurs reports whether a process is the user's own. What another user's process says of itself is not believed.
func isOurs(pid int) bool {
	uid, err := proc.UID(pid)
	return err == nil && uid == os.Getuid()
}

func (gr *Group) start() {
	gr.seen, gr.asked, gr.spare, gr.marked = map[proc.ID]bool{}, map[proc.ID]bool{}, map[proc.ID]bool{}, map[proc.ID]bool{}
	for _, id := range gr.Seeds {
		gr.seen[id] = true
	}
}

// holdsCaller reports whether the caller has the mark of a group, or is in its leaf, or may be.
func (gr *Group) holdsCaller() bool {
	if gr.Session != "" && os.Getenv(gr.Mark) == gr.Session {
		return true
	}
	if gr.Leaf == nil {
		return false
	}
	inside, err := gr.Leaf.Holds(os.Getpid())
	return inside || err != nil
}

// members lists the living members: those seen before, and all processes below them now. It lists none after a process that could
// not be inspected in this look, as nobody knows what is to be kept (unread).
func (gr *Group) members(t snapshot) []proc.Stat {
	b := gr.batch
	queue, reached := gr.roots(t), map[int]bool{}
	var all []proc.Stat
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		s, ok := t.byPID[pid]
		if reached[pid] || !ok || t.own[pid] || t.below[pid] {
			continue
		}
		reached[pid] = true
		all = append(all, s)
		queue = append(queue, t.children[pid]...)
	}
	clear(gr.marked)
	var out []proc.Stat
	for _, s := range all {
		kept := gr.keptAbove(t, s, reached)
		switch {
		case s.Dead():
		case kept:
			gr.spare[s.ID] = true // also after its parent has ended
			gr.Kept = append(gr.Kept, s)
		case gr.allowed(s):
			gr.seen[s.ID] = true // the next look finds it, though its parent may have ended
			out = append(out, s)
		}
	}
	gr.left = len(out)
	if b.unread != nil {
		return nil
	}
	return out
}

// roots are the processes of a snapshot from which to look for members.
func (gr *Group) roots(t snapshot) []int {
	var queue []int
	for id := range gr.seen {
		if s, ok := t.byPID[id.PID]; ok && s.ID == id {
			queue = append(queue, id.PID)
		}
	}
	if gr.Session != "" && !gr.Inherited {
		queue = append(queue, t.born[gr.Session]...)
	}
	if gr.Leaf == nil {
		return queue
	}
	pids, _ := gr.Leaf.Procs()
	for _, pid := range pids {
		now, err := gr.batch.reader.Stat(pid)
		if err != nil {
			continue
		}
		// The snapshot is older. What it knows by this pid, and below it, may be another process.
		if now.ID != t.byPID[pid].ID {
			// A newborn may be a command of the caller, if that is in the leaf. The next look tells.
			if inside, err := gr.Leaf.Holds(pid); !inside || err != nil || gr.batch.within {
				continue
			}
			t.byPID[pid], t.children[pid] = now, nil
		}
		queue = append(queue, pid)
	}
	return queue
}

// maxClimb bounds the way up to the ancestors. A table that was read while pids were reused may contain a cycle.
const maxClimb = 256

// keptAbove reports whether a process, or an ancestor of it, is to be kept. A kept ancestor may be outside of the group. It must
// have the session's mark then, because a pattern may match a gateway or a shell as well.
func (gr *Group) keptAbove(t snapshot, s proc.Stat, group map[int]bool) bool {
	if s.Dead() {
		return false
	}
	for range maxClimb {
		if gr.spare[s.ID] || (group[s.PID] || gr.isMarked(s)) && gr.keeps(s) {
			return true
		}
		up, ok := t.byPID[s.PPID]
		if !ok || up.Start > s.Start {
			break
		}
		s = up
	}
	return false
}

func (gr *Group) keeps(s proc.Stat) bool {
	keep, judged := gr.spare[s.ID]
	if !judged {
		keep = gr.batch.keeps(s, gr.Keep, gr.Began)
		if keep || gr.batch.unread == nil {
			gr.spare[s.ID] = keep
		}
	}
	return keep
}

// isMarked reports whether a process has the session's mark.
func (gr *Group) isMarked(s proc.Stat) bool {
	if gr.Session == "" {
		return false
	}
	marked, asked := gr.marked[s.ID]
	if !asked {
		marked = gr.allowed(s) && gr.batch.hasEnv(s, gr.Mark+"="+gr.Session)
		gr.marked[s.ID] = marked
	}
	return marked
}

func (gr *Group) allowed(s proc.Stat) bool {
	if gr.UID < 0 {
		return true
	}
	uid, err := proc.UID(s.PID)
	return err == nil && uid == gr.UID
}
