package teardown

import (
	"golang.org/x/sys/unix"

	"mcp-tether/proc"
)

// kin is a process of a group, as the last look has found it.
type kin struct {
	// start is when it started, in clock ticks since boot.
	start uint64
	kept  bool
}

// stopBorn stops the members that have started since the last look, until none turns up. While the whole process table
// is read again, a tree that forks moves on. They are killed later, because a child is known by its parent as long as
// that lives. none says that there can be no other, if all members of that look have been stopped. It is false when the
// births could not be followed.
func (b *Batch) stopBorn() (born []proc.Stat, none bool) {
	fresh := func(p proc.Stat) bool {
		// It may be asked twice (SignalIf).
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
	none, _ = hunt(&b.reader, fresh, unix.SIGSTOP)
	return born, none
}

// groupOf returns the group of a process that has started since the last look, or nil. It is the group of its parent,
// else that of its mark or leaf. A process to keep has none, nor has what that one starts.
func (b *Batch) groupOf(p proc.Stat) *Group {
	if p.Dead() {
		return nil
	}
	for _, gr := range b.Groups {
		if k, ok := gr.known[p.PID]; ok && k.start == p.Start {
			return nil
		}
	}
	for _, gr := range b.Groups {
		if up, ok := gr.known[p.PPID]; ok && b.startOf(p.PPID) == up.start {
			return gr.unlessKept(p, up.kept)
		}
	}
	id := b.markOf(p)
	for _, gr := range b.Groups {
		if id != "" && gr.Session == id || gr.Leaf != nil && gr.Leaf.Has(p.PID) {
			return gr.unlessKept(p, false)
		}
	}
	return nil
}

// startOf is when the process that has a pid now has started, in clock ticks; 0 if there is none.
func (b *Batch) startOf(pid int) uint64 {
	s, err := b.reader.Stat(pid)
	if err != nil {
		return 0
	}
	return s.Start
}

// unlessKept is the group, unless the process or its parent is to be kept.
func (gr *Group) unlessKept(p proc.Stat, parentKept bool) *Group {
	if !parentKept && !gr.keeps(p) {
		return gr
	}
	gr.known[p.PID] = kin{start: p.Start, kept: true}
	return nil
}
