package reap

import (
	"fmt"
	"slices"

	"mcp-tether/internal/proc"
)

// marks finds the processes whose environment names a session that no supervisor looks after, and a dead gateway.
func (x *index) marks() []Finding {
	bySession := map[string][]*process{}
	var order []string
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if p.Mark == "" || p.Service || x.spared(p) || !x.mine(p) || x.supervised(p.Mark) || !x.wants(p.Mark) {
			continue
		}
		if bySession[p.Mark] == nil {
			order = append(order, p.Mark)
		}
		bySession[p.Mark] = append(bySession[p.Mark], p)
	}
	var out []Finding
	for _, id := range order {
		orphans, cared := x.byCare(id, bySession[id])
		if f, ok := x.mark(id, orphans); ok {
			out = append(out, f)
		}
		if f, ok := x.mark(id, cared); ok {
			f.doubt(adviceParent, fmt.Sprintf("its parent (pid %d) lives and is no part of the session", x.byPID[f.Top.PID].PPID))
			out = append(out, f)
		}
	}
	return out
}

// isInherited reports whether processes outside of a session have its mark.
func (x *index) isInherited(id string) bool {
	var marked []*process
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if p.Mark != id || !x.mine(p) || p.Dead() {
			continue
		}
		if p.Service {
			return true
		}
		marked = append(marked, p)
	}
	_, cared := x.byCare(id, marked)
	return len(cared) > 0
}

// byCare separates the processes whose parent lives, is no part of the session and does not adopt orphans, with all below them.
// That parent has started them itself, with an environment that it got from elsewhere. Terminal servers, editors and programs that
// import variables do so. A process in the session's leaf is a part of the session even if its environment cannot be
// read, as with a dying process.
func (x *index) byCare(id string, marked []*process) (orphans, cared []*process) {
	members, lookedAfter := map[int]bool{}, map[int]bool{}
	for _, p := range marked {
		members[p.PID] = true
	}
	if l := x.leafOf(id); l != nil {
		for _, pid := range l.PIDs {
			members[pid] = true
		}
	}
	isIn := func(pids map[int]bool) func(*process) bool { return func(a *process) bool { return pids[a.PID] } }
	for _, p := range marked {
		up := x.parent(p)
		lookedAfter[p.PID] = up != nil && !x.adopts(up) && !x.inLine(up, isIn(members))
	}
	for _, p := range marked {
		if x.inLine(p, isIn(lookedAfter)) {
			cared = append(cared, p)
		} else {
			orphans = append(orphans, p)
		}
	}
	return orphans, cared
}

// mark judges processes with the mark of one session.
func (x *index) mark(id string, marked []*process) (Finding, bool) {
	f := Finding{Class: classMark, Session: id}
	marked = slices.DeleteFunc(marked, func(p *process) bool {
		return x.tethered(p) || x.taken[p.ID] || !x.h.Inside(p.PID)
	})
	if len(marked) == 0 {
		return f, false
	}
	f.UID = marked[0].UID
	g, err := proc.ParseGlobalID(marked[0].Gateway)
	if err != nil || g.Boot != "" && g.Host != x.h.Host {
		return f, false
	}
	f.Gateway = x.gatewayOf(marked[0].Gateway)
	f.Evidence = []string{"its environment names session " + id + ", which no supervisor looks after"}
	isHidden := slices.ContainsFunc(marked, func(p *process) bool { return !x.rooted(p) })
	if isHidden {
		f.Evidence = append(f.Evidence, "an ancestor of it cannot be seen")
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("its gateway (pid %d) is %s", g.PID, f.Gateway.State))
	switch {
	case isHidden || f.Gateway.State != proc.Dead.String():
		f.doubt(adviceGateway)
	case x.keeping[id]:
		f.doubt(adviceKeep, keepUnclear)
	}
	f.group.Inherited = x.isInherited(id)
	x.fill(&f, marked, false)
	return f, len(f.Members) > 0
}
