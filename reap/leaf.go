package reap

import (
	"fmt"
	"slices"

	"mcp-tether/internal/proc"
)

// leaves finds our cgroups whose session is dead: those that prove that their members are the session's, or the others.
func (x *index) leaves(r Rules, proven bool) []Finding {
	var out []Finding
	for i := range x.h.Leaves {
		l := &x.h.Leaves[i]
		if r.Session != "" && r.Session != l.ID || x.supervised[l.ID] || x.stored(l.ID) != nil {
			continue
		}
		if l.Old && !l.Foreign && len(l.PIDs) == 0 && proven {
			out = append(out, abandoned(l))
		}
		if l.Foreign || len(l.PIDs) == 0 {
			// Nothing is known of a process of another pid namespace.
			continue
		}
		tops := x.inLeaf(l)
		outside := func(p *process) bool { return !x.h.Inside(p.PID) }
		if slices.ContainsFunc(tops, x.tethered) || slices.ContainsFunc(tops, outside) {
			continue
		}
		if doubt := x.doubt(l, tops); (doubt == "") == proven {
			if f := x.leaf(l, tops, doubt); !f.stays || len(f.Members) > 0 {
				out = append(out, f)
			}
		}
	}
	return out
}

// abandoned is an empty leaf without a record. Nothing is ended for it: the kernel removes no cgroup in which a process is.
func abandoned(l *cgroupLeaf) Finding {
	return Finding{
		Class: classCgroup, Session: l.ID, UID: l.UID, stored: stored{leaf: l.Dir}, ended: true, Gateway: gateway{State: proc.Unknown.String()},
		Evidence: []string{"cgroup " + l.Dir + " is ours, empty and older than a minute, and no supervisor looks after its session"},
	}
}

func (x *index) leaf(l *cgroupLeaf, tops []*process, doubt string) Finding {
	f := Finding{Class: classCgroup, Session: l.ID, UID: l.UID, stored: stored{leaf: l.Dir}, Gateway: gateway{State: proc.Unknown.String()}}
	f.Evidence = []string{"cgroup " + l.Dir + " is ours and no supervisor looks after its session"}
	f.inherited = x.inherited(l.ID)
	if doubt != "" {
		f.Class, f.Advice = classSuspect, "not proven: look at it, and end it by hand if no process needs it"
		f.Evidence = append(f.Evidence, doubt)
	}
	x.fill(&f, tops, false)
	f.stays = x.keepsPeoples(l.ID)
	return f
}

// doubt says why a supervisor whose record we do not see may look after a leaf all the same; "" if it cannot. It may if
// a member or an ancestor is hidden. It also may if a member has a living parent that is neither a member nor an
// adopter of orphans.
func (x *index) doubt(l *cgroupLeaf, tops []*process) string {
	if len(tops) < len(l.PIDs) {
		return "a member of it cannot be seen"
	}
	if x.keeping[l.ID] {
		return keepUnclear
	}
	for _, p := range tops {
		if p.Dead() {
			continue
		}
		if !x.rooted(p) {
			return "an ancestor of a member cannot be seen"
		}
		if up := x.parent(p); up != nil && !slices.Contains(l.PIDs, up.PID) && !x.adopts(up) {
			return fmt.Sprintf("pid %d (%s) is the parent of a member and may look after it", up.PID, up.Comm)
		}
	}
	return ""
}

// leafOf is the leaf of a session, nil for none.
func (x *index) leafOf(id string) *cgroupLeaf {
	if i := slices.IndexFunc(x.h.Leaves, func(l cgroupLeaf) bool { return l.ID == id }); i >= 0 {
		return &x.h.Leaves[i]
	}
	return nil
}

// inLeaf lists the members of a leaf that are in the table.
func (x *index) inLeaf(l *cgroupLeaf) []*process {
	var out []*process
	for _, pid := range l.PIDs {
		if p := x.byPID[pid]; p != nil {
			out = append(out, p)
		}
	}
	return out
}
