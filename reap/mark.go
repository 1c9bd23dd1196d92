package reap

import (
	"fmt"
	"slices"

	"mcp-tether/internal/proc"
)

// marks finds the processes whose environment names a session that no supervisor looks after, and a dead gateway.
func (x *index) marks(r Rules) []Finding {
	bySession := map[string][]*process{}
	var order []string
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if p.Mark == "" || p.Service || x.spared(p) || !x.mine(p) || x.supervised[p.Mark] || r.Session != "" && r.Session != p.Mark {
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
			f.Class, f.Advice = classSuspect, "a living process has started it and may look after it: end it by hand if you know better"
			f.Evidence = append(f.Evidence, fmt.Sprintf("its parent (pid %d) lives and is no part of the session", x.byPID[f.Top.PID].PPID))
			out = append(out, f)
		}
	}
	return out
}

// inherited reports whether processes outside of a session have its mark.
func (x *index) inherited(id string) bool {
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

// byCare separates the processes whose parent lives, is no part of the session and does not adopt orphans. That parent
// has started them itself, with an environment that it got from elsewhere. Terminal servers, editors and programs that
// import variables do so. A process in the session's leaf is a part of the session even if its environment cannot be
// read, as with a dying process.
func (x *index) byCare(id string, marked []*process) (orphans, cared []*process) {
	members := map[int]bool{}
	for _, p := range marked {
		members[p.PID] = true
	}
	if l := x.leafOf(id); l != nil {
		for _, pid := range l.PIDs {
			members[pid] = true
		}
	}
	for _, p := range marked {
		up := x.parent(p)
		if up == nil || members[up.PID] || x.adopts(up) || x.belowOne(up, members) {
			orphans = append(orphans, p)
			continue
		}
		cared = append(cared, p)
	}
	return x.followCare(orphans, cared)
}

// followCare moves the orphans below a process of cared to cared.
func (x *index) followCare(orphans, cared []*process) (free, kept []*process) {
	pids := map[int]bool{}
	for _, p := range cared {
		pids[p.PID] = true
	}
	for _, p := range orphans {
		if x.belowOne(x.parent(p), pids) {
			cared = append(cared, p)
			continue
		}
		free = append(free, p)
	}
	return free, cared
}

// belowOne reports whether a process or an ancestor of it is one of the given.
func (x *index) belowOne(p *process, of map[int]bool) bool {
	for a := range x.line(p) {
		if of[a.PID] {
			return true
		}
	}
	return false
}

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
	switch {
	case err != nil:
		return f, false
	case g.Boot != "" && g.Host != x.h.Host:
		return f, false
	}
	// Without a boot the pid may be of any pid namespace.
	f.Gateway = gateway{ID: g.ID, State: proc.Unknown.String()}
	if g.Boot != "" {
		f.Gateway = x.gateway(g.ID)
	}
	f.Evidence = []string{"its environment names session " + id + ", which no supervisor looks after"}
	hidden := slices.ContainsFunc(marked, func(p *process) bool { return !x.rooted(p) })
	if hidden {
		f.Evidence = append(f.Evidence, "an ancestor of it cannot be seen")
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("its gateway (pid %d) is %s", g.PID, f.Gateway.State))
	if f.Gateway.State != proc.Dead.String() || hidden {
		f.Class, f.Advice = classSuspect, "its gateway is not known to be dead: end it by hand if you know better"
	} else if x.keeping[id] {
		f.Class, f.Advice = classSuspect, keepAdvice
		f.Evidence = append(f.Evidence, keepUnclear)
	}
	f.inherited = x.inherited(id)
	x.fill(&f, marked, false)
	return f, len(f.Members) > 0
}

const (
	// keepUnclear is why nothing of a session with --keep is proven by its mark: what it has kept has that too.
	keepUnclear = "its session may keep processes (--keep), and it is not known which"
	keepAdvice  = "it may be meant to stay: end it by hand if no process needs it"
)
