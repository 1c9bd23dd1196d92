package teardown

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/proc"
)

// Group is a set of processes without a living supervisor, to be ended together.
type Group struct {
	// Seeds are the members found so far. Whatever is below one of them, or joins the leaf, belongs to the group too.
	Seeds []proc.ID
	// Leaf is their cgroup, or nil.
	Leaf *cgroup.Leaf
	// UID is the only user whose processes are touched; -1 for any.
	UID int
	// Keep are the patterns of processes to leave alone.
	Keep []string
	// Survivors and Ended are the outcome.
	Survivors []Survivor
	Ended     int

	scope Scope
	seen  map[proc.ID]bool
	asked map[proc.ID]bool
}

// Batch ends several groups at once, with one look at the process table a round.
type Batch struct {
	Groups []*Group
	reader proc.Reader
}

// pause is the time between two looks at the table.
const pause = 20 * time.Millisecond

// End asks every member of every group to end, waits up to the term grace, then kills until all are gone or the kill
// timeout has passed. It fills in the groups' outcomes. The error says that the process table cannot be read: then
// nothing was signalled.
func (b *Batch) End(g Grace) error {
	for _, gr := range b.Groups {
		gr.start()
	}
	if _, err := b.round(unix.SIGTERM, unix.SIGCONT); err != nil {
		return err
	}
	if done, err := b.until(time.Now().Add(g.Term), unix.SIGTERM, unix.SIGCONT); done || err != nil {
		return err
	}
	for _, gr := range b.Groups {
		gr.asked = map[proc.ID]bool{}
	}
	_, err := b.until(time.Now().Add(g.Kill), unix.SIGKILL)
	return errors.Join(err, b.conclude())
}

// until repeats rounds until nobody is left or the time is up.
func (b *Batch) until(deadline time.Time, sigs ...syscall.Signal) (done bool, err error) {
	for {
		left, err := b.round(sigs...)
		if err != nil || left == 0 {
			return left == 0, err
		}
		if !time.Now().Before(deadline) {
			return false, nil
		}
		time.Sleep(pause)
	}
}

// round signals the members that were not asked yet, and counts the living. A SIGKILL is sent again and again, to
// members that were stopped first, so that none forks away.
func (b *Batch) round(sigs ...syscall.Signal) (left int, err error) {
	t, err := b.look()
	if err != nil {
		return 0, err
	}
	for _, gr := range b.Groups {
		members := gr.members(t)
		left += len(members)
		if sigs[0] == unix.SIGKILL {
			gr.scope.signalAll(members, unix.SIGSTOP)
			gr.scope.signalAll(members, sigs...)
			continue
		}
		var fresh []proc.Stat
		for _, m := range members {
			if !gr.asked[m.ID] {
				gr.asked[m.ID] = true
				fresh = append(fresh, m)
			}
		}
		gr.scope.signalAll(fresh, sigs...)
	}
	return left, nil
}

// conclude names the survivors.
func (b *Batch) conclude() error {
	t, err := b.look()
	if err != nil {
		return err
	}
	for _, gr := range b.Groups {
		gr.Survivors = gr.scope.Survivors(gr.members(t))
	}
	return nil
}

// snapshot is one look at everybody.
type snapshot struct {
	byPID    map[int]proc.Stat
	children map[int][]int
}

func (b *Batch) look() (snapshot, error) {
	all, err := b.reader.All()
	if err != nil {
		return snapshot{}, err
	}
	t := snapshot{make(map[int]proc.Stat, len(all)), make(map[int][]int, len(all))}
	for _, s := range all {
		t.byPID[s.PID] = s
		t.children[s.PPID] = append(t.children[s.PPID], s.PID)
	}
	return t, nil
}

func (gr *Group) start() {
	gr.scope.Keep = gr.Keep
	gr.seen, gr.asked = map[proc.ID]bool{}, map[proc.ID]bool{}
	for _, id := range gr.Seeds {
		gr.seen[id] = true
	}
}

// members lists who of the group lives: the seen, and what is below them by now.
func (gr *Group) members(t snapshot) []proc.Stat {
	var queue []int
	for id := range gr.seen {
		if s, ok := t.byPID[id.PID]; ok && s.ID == id {
			queue = append(queue, id.PID)
		}
	}
	if gr.Leaf != nil {
		if pids, err := gr.Leaf.Procs(); err == nil {
			queue = append(queue, pids...)
		}
	}
	var out []proc.Stat
	done := map[int]bool{}
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		s, ok := t.byPID[pid]
		if done[pid] || !ok {
			continue
		}
		done[pid] = true
		if gr.scope.keeps(s) {
			continue
		}
		queue = append(queue, t.children[pid]...)
		if !s.Dead() && gr.allowed(s) {
			gr.seen[s.ID] = true
			out = append(out, s)
		}
	}
	return out
}

func (gr *Group) allowed(s proc.Stat) bool {
	if gr.UID < 0 {
		return true
	}
	uid, err := proc.UID(s.PID)
	return err == nil && uid == gr.UID
}
