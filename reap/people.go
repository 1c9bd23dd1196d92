package reap

import (
	"slices"
	"strings"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// What belongs to people is left alone in dead sessions as at the end of a living one: a browser that was opened for a person, and
// what somebody else uses. It is shown as long as it is there. The first pass that finds nobody connected any more ends the latter.

// belonging is what is known of one process: why it belongs to people, "" if it does not, and its session.
type belonging struct{ why, session string }

// belongs says why a process of a dead session belongs to people; "" if it does not. A process below it is not asked about.
func (x *index) belongs(p *process, id string) string {
	known, asked := x.belongings[p.ID]
	if !asked {
		known = belonging{x.whyBelongs(p, id), id}
		x.belongings[p.ID] = known
	}
	return known.why
}

func (x *index) whyBelongs(p *process, id string) string {
	s := x.sessions[id]
	switch {
	case p.Dead() || !x.mine(p) || x.keepsNothing(id) || !x.h.Inside(p.PID):
		return ""
	case p.Browser == teardown.Personal && !x.belowDriven(p):
		return teardown.BrowserReason
	case id == "" || s != nil && p.PGRP != 0 && (p.PGRP == s.Server.PID || p.PGRP == s.Group): // in the group of the server, which is no daemon
		return ""
	}
	by := x.h.User(p.PID, x.inside(p, id))
	if by == 0 {
		return ""
	}
	name := ""
	if user := x.byPID[by]; user != nil {
		name = user.Comm
	}
	return teardown.InUse(by, name)
}

// belowDriven reports whether a browser that a program drives has started a process.
func (x *index) belowDriven(p *process) bool {
	return x.inLine(p, func(a *process) bool { return a.Browser == teardown.Driven })
}

// inside are the processes whose connections to a process of a session say nothing.
func (x *index) inside(p *process, id string) []int {
	pids := []int{x.h.Self}
	for _, s := range x.table.Below([]int{p.PID}, nil) {
		pids = append(pids, s.PID)
	}
	for i := range x.h.Procs {
		if m := &x.h.Procs[i]; m.Mark == id && x.mine(m) {
			pids = append(pids, m.PID)
		}
	}
	if l := x.leafOf(id); l != nil {
		pids = append(pids, l.PIDs...)
	}
	var above []proc.ID
	if s := x.sessions[id]; s != nil {
		above = append(above, s.Gateway, s.Parent)
	}
	if g, err := proc.ParseGlobalID(p.Gateway); err == nil {
		above = append(above, g.ID)
	}
	for _, a := range above {
		if up := x.byPID[a.PID]; up != nil && up.ID == a { // else another process has its number by now
			pids = append(pids, a.PID)
		}
	}
	return pids
}

// keepsNothing reports whether nothing of a session is kept (--keep-nothing, of run or of this pass).
func (x *index) keepsNothing(id string) bool {
	return x.r.KeepNothing || x.sessions[id] != nil && x.sessions[id].KeepNothing
}

// keepBelongings keeps what belongs to people of those that have the mark of a dead session, or that its record names.
func (x *index) keepBelongings() {
	keep := func(p *process, id string) {
		if !x.supervised(id) && !x.kept[p.PID] && x.belongs(p, id) != "" {
			x.keepTree(p)
		}
	}
	for i := range x.h.Procs {
		if p := &x.h.Procs[i]; p.Mark != "" && !p.Service {
			keep(p, p.Mark)
		}
	}
	for i := range x.h.Sessions {
		s := &x.h.Sessions[i]
		for _, k := range s.Kept {
			if p := x.byPID[k.PID]; p != nil && x.wasKept(p, s) {
				keep(p, s.ID)
			}
		}
	}
}

// wasKept reports whether the record of a session names a process as one that was kept because it belongs to people.
func (x *index) wasKept(p *process, s *storedSession) bool {
	return x.mine(p) && slices.ContainsFunc(s.Kept, func(k session.Fate) bool {
		return k.ID == p.ID && teardown.IsPeoples(strings.TrimPrefix(k.What, session.Kept))
	})
}

// keepsSome reports whether something of a session is kept because it belongs to people.
func (x *index) keepsSome(id string) bool {
	for _, b := range x.belongings {
		if b.session == id && b.why != "" {
			return true
		}
	}
	return false
}

// keptForPeople finds what is kept because it belongs to people. Below a living wrapper that one sees to it.
func (x *index) keptForPeople() (out []Finding) {
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		b := x.belongings[p.ID]
		if b.why == "" || b.session == "" || !x.wants(b.session) || x.belowBelonging(p) || x.tethered(p) {
			continue
		}
		f := Finding{Session: b.session, UID: p.UID, Top: p.ID, Command: session.Redact(p.Args), Gateway: gateway{State: proc.Unknown.String()}}
		f.doubt("it ends with the first pass that finds nobody connected; reap --kill --keep-nothing ends it now", session.Kept+b.why)
		if b.why == teardown.BrowserReason {
			f.Advice = "it is a person's: close its windows, or end it with reap --kill --keep-nothing"
		}
		if s := x.sessions[b.session]; s != nil {
			f.Name, f.Gateway = s.Name, x.gateway(s.Gateway)
		}
		for _, m := range x.table.Below([]int{p.PID}, nil) {
			f.Members = append(f.Members, m.ID)
		}
		out = append(out, f)
	}
	return out
}

// belowBelonging reports whether a process is below another one that is reported.
func (x *index) belowBelonging(p *process) bool {
	return x.inLine(p, func(a *process) bool { return a != p && x.belongings[a.ID].why != "" })
}
