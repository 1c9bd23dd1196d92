package reap

import (
	"fmt"
	"slices"

	"mcp-tether/internal/proc"
)

// leaves finds our cgroups whose session is dead, without a record: those that prove that their members are the session's, or the
// others.
func (x *index) leaves(proven bool) []Finding {
	var out []Finding
	for i := range x.h.Leaves {
		l := &x.h.Leaves[i]
		if !x.wants(l.ID) || x.sessions[l.ID] != nil {
			continue
		}
		f := Finding{Class: classCgroup, Session: l.ID, UID: l.UID, Gateway: gateway{State: proc.Unknown.String()}, remains: remains{leaf: l.Dir}}
		switch {
		case l.Foreign: // Nothing is known of a process of another pid namespace.
		case len(l.PIDs) > 0:
			if x.leaf(&f, l, proven) {
				out = append(out, f)
			}
		case l.Old && proven:
			// Nothing is ended for it: the kernel removes no cgroup in which a process is.
			f.empty = true
			f.Evidence = []string{"cgroup " + l.Dir + " is ours, empty and older than a minute, and no supervisor looks after its session"}
			out = append(out, f)
		}
	}
	return out
}

// leaf judges a leaf with members, if it proves that they are the session's, or does not, as it should.
func (x *index) leaf(f *Finding, l *cgroupLeaf, proven bool) bool {
	tops := x.inLeaf(l)
	isAnothers := func(p *process) bool { return x.tethered(p) || !x.h.Inside(p.PID) }
	if slices.ContainsFunc(tops, isAnothers) {
		return false
	}
	why := x.unproven(l, tops)
	if (why == "") != proven {
		return false
	}
	f.Evidence = []string{"cgroup " + l.Dir + " is ours and no supervisor looks after its session"}
	if why != "" {
		f.doubt(adviceLook, why)
	}
	f.group.Inherited = x.isInherited(l.ID)
	x.fill(f, tops, false)
	f.stays = x.keepsSome(l.ID)
	return !f.stays || len(f.Members) > 0
}

// unproven says why a supervisor whose record we do not see may look after a leaf all the same; "" if it cannot. It may if
// a member or an ancestor is hidden. It also may if a member has a living parent that is neither a member nor an
// adopter of orphans.
func (x *index) unproven(l *cgroupLeaf, tops []*process) string {
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
