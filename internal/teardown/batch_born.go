package teardown

import (
	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// kin is a process of a group, as the last look has found it.
type kin struct {
	// start is when it started, in clock ticks since boot.
	start uint64
	// kept says that it is to be kept.
	kept bool
}

// stopBorn stops the members that have started since the last look, until none turns up. It does not read the whole
// process table again, because a tree that forks would move on meanwhile. The members are killed later: as long as a
// parent lives, its children are known by it. If all members of the last look were stopped, none says that there can be
// no other. It is false if the births could not be followed.
func (b *Batch) stopBorn() (born []proc.Stat, none bool) {
	fresh := func(p proc.Stat) bool {
		// fresh may be called twice for one process (proc.Reader.SignalBorn).
		if n := len(born); n > 0 && born[n-1].ID == p.ID {
			return true
		}
		gr := b.groupOf(p)
		if gr == nil || !gr.allowed(p) {
			return false
		}
		gr.known[p.PID], gr.seen[p.ID] = kin{start: p.Start}, true
		born = append(born, p)
		return true
	}
	b.unread = nil
	none, _ = hunt(&b.reader, fresh, unix.SIGSTOP)
	return born, none && b.unread == nil
}

// groupOf returns the group of a process that has started since the last look, or nil. It is the group of its parent,
// else that of its mark or leaf. A kept process has none, nor has what it starts.
func (b *Batch) groupOf(p proc.Stat) *Group {
	if p.Dead() || b.last.own[p.PID] {
		return nil
	}
	if b.last.below[p.PPID] {
		b.last.below[p.PID] = true // its children come later
		return nil
	}
	for _, gr := range b.Groups {
		if k, ok := gr.known[p.PID]; ok && k.start == p.Start {
			return nil
		}
	}
	for _, gr := range b.Groups {
		if up, ok := gr.known[p.PPID]; ok && b.startOf(p.PPID) == up.start {
			return gr.unlessKept(p, up)
		}
	}
	id := b.markOf(p)
	for _, gr := range b.Groups {
		if id != "" && gr.Session == id && !gr.Inherited || gr.Leaf != nil && gr.Leaf.Has(p.PID) {
			return gr.unlessKept(p, kin{kept: gr.keptAbove(b.last, p, nil)})
		}
	}
	return nil
}

// startOf is the start time of the process that has the pid now, in clock ticks; 0 if there is none.
func (b *Batch) startOf(pid int) uint64 {
	s, err := b.reader.Stat(pid)
	if err != nil {
		return 0
	}
	return s.Start
}

// unlessKept is the group, unless the process or its parent is to be kept, or that cannot be known before the next look.
func (gr *Group) unlessKept(p proc.Stat, up kin) *Group {
	switch {
	case up.kept || gr.keeps(p):
		gr.spare[p.ID] = true
		gr.known[p.PID] = kin{p.Start, true}
	case len(gr.unread) == 0 && gr.batch.unread == nil:
		return gr
	default:
		gr.seen[p.ID] = true // as in members
	}
	return nil
}
