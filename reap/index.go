package reap

import (
	"iter"
	"path"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// index holds the tables of the rules.
type index struct {
	h     *machine
	r     Rules
	table proc.Table
	byPID map[int]*process
	// sessions are the records, by the ids of their sessions.
	sessions map[string]*storedSession
	// callers are the pass itself and its ancestors, by pid.
	callers map[int]bool
	// adopters are the processes that have adopted an orphan, by pid.
	adopters map[int]bool
	// kept are the processes that are marked to be kept or match the patterns of their session's record, and all below them, by pid.
	kept map[int]bool
	// keeping are the sessions with --keep, or with a record that cannot be read. Without their record, nothing says what is to be
	// kept of them.
	keeping map[string]bool
	// belongings are the processes that were asked about (belongs).
	belongings map[proc.ID]belonging
	named
}

// named is what is in a finding already: processes, containers by their ids, and suspects that the rules came across.
type named struct {
	taken    map[proc.ID]bool
	reported map[string]bool
	suspects []Finding
}

func newIndex(h *machine, r Rules) *index {
	x := &index{
		h: h, r: r, byPID: map[int]*process{}, sessions: map[string]*storedSession{}, callers: map[int]bool{}, adopters: map[int]bool{},
		kept: map[int]bool{}, keeping: map[string]bool{}, belongings: map[proc.ID]belonging{},
		named: named{taken: map[proc.ID]bool{}, reported: map[string]bool{}},
	}
	all := make([]proc.Stat, len(h.Procs))
	for i := range h.Procs {
		x.byPID[h.Procs[i].PID], all[i] = &h.Procs[i], h.Procs[i].Stat
	}
	x.table = proc.NewTable(all)
	for i := range h.Sessions {
		s := &h.Sessions[i]
		if x.sessions[s.ID] == nil || s.Held {
			x.sessions[s.ID] = s
		}
		x.keeping[s.ID] = x.keeping[s.ID] || s.Unread != nil
	}
	for a := range x.line(x.byPID[h.Self]) {
		x.callers[a.PID] = true
	}
	for i := range h.Procs {
		x.noteAdoption(&h.Procs[i])
		x.noteKept(&h.Procs[i])
	}
	if !h.Blind { // Else nobody knows which session is dead.
		x.keepBelongings()
	}
	return x
}

// noteKept notes what is meant to stay.
func (x *index) noteKept(p *process) {
	if x.keepsNothing(p.Mark) {
		return
	}
	var s session.Record
	if stored := x.sessions[p.Mark]; stored != nil {
		s = stored.Record
	}
	if p.Keep || teardown.KeptBy(s.Keep, p.Comm, p.Args) || teardown.HoldsOlder(p.Comm, p.Args, s.Started) {
		x.keepTree(p)
	}
	x.keeping[p.Mark] = x.keeping[p.Mark] || p.Keeps
}

// supervised reports whether a session has a living supervisor.
func (x *index) supervised(id string) bool { return x.sessions[id] != nil && x.sessions[id].Held }

// parent is the parent of a process, nil when it is not in the table.
func (x *index) parent(p *process) *process {
	if up, ok := x.table.Parent(p.Stat); ok {
		return x.byPID[up.PID]
	}
	return nil
}

// noteAdoption notes a child subreaper by what it did. A process is born into the terminal session of the process that
// forked it, and leaves it only for one of its own. A child in a third terminal session, whose leader is dead, was
// forked by another process.
func (x *index) noteAdoption(p *process) {
	up, sid := x.parent(p), p.Stat.Session
	if up != nil && sid > 0 && up.Stat.Session > 0 && sid != p.PID && sid != up.Stat.Session && sid != up.PID && x.gone(sid) {
		x.adopters[up.PID] = true
	}
}

// gone reports whether no living process has a pid.
func (x *index) gone(pid int) bool { return x.byPID[pid] == nil || x.byPID[pid].Dead() }

// adopts reports whether a process adopts orphans by its task, or has done so: then being its child says nothing.
func (x *index) adopts(p *process) bool { return adoptsOrphans(p) || x.adopters[p.PID] }

// maxClimb bounds the way up to the ancestors: pids that changed hands may lead round in a circle.
const maxClimb = 256

// line gives a process and its ancestors, as far as they are in the table.
func (x *index) line(p *process) iter.Seq[*process] {
	return func(yield func(*process) bool) {
		for n := 0; p != nil && n < maxClimb && yield(p); n++ {
			p = x.parent(p)
		}
	}
}

// inLine reports whether a process, or an ancestor of it, is one that is looked for.
func (x *index) inLine(p *process, is func(*process) bool) bool {
	for a := range x.line(p) {
		if is(a) {
			return true
		}
	}
	return false
}

// keepTree adds a process and all below it to the kept.
func (x *index) keepTree(p *process) {
	for _, s := range x.table.Below([]int{p.PID}, x.kept) {
		x.kept[s.PID] = true
	}
}

// isTether reports whether a process is a living wrapper of ours: anchor, supervisor, waiter, front or host.
func isTether(p *process) bool {
	switch {
	case p.Dead():
		return false
	case p.Args == nil:
		// It is another user's, whose command line is not read.
		return p.Comm == "mcp-tether" || p.Comm == "mcp-tether-host"
	case len(p.Args) < 2:
		return false
	}
	return argv.IsHost(p.Args) || argv.IsSession(p.Args) && (p.Comm == "mcp-tether" || path.Base(p.Args[0]) == "mcp-tether")
}

// tethered reports whether a wrapper of ours is p or an ancestor of it: then that session lives and looks after p.
func (x *index) tethered(p *process) bool { return x.inLine(p, isTether) }

// rooted reports whether all ancestors of p can be seen, up to init. An ancestor that cannot be seen may be a
// supervisor.
func (x *index) rooted(p *process) bool {
	return x.inLine(p, func(a *process) bool { return a.PPID == 1 || a.PID == 1 })
}

// mine reports whether the pass looks after a process. It does so for its own user only, even as root. Root has the pass made
// once more as each of the other users (users.go).
func (x *index) mine(p *process) bool { return x.h.UID == p.UID }

// spared reports whether a process is never touched: it is untouchable or a newborn.
func (x *index) spared(p *process) bool { return x.untouchable(p) || p.Start >= x.h.Since }

// untouchable is spared without the newborns: a newborn below or beside a proven member belongs to that member. It
// covers the dead, the stuck, init, the pass itself and its ancestors, what is meant to stay, and what is in a finding
// already.
func (x *index) untouchable(p *process) bool {
	return p.Dead() || p.Stuck || p.PID <= 1 || x.callers[p.PID] || x.kept[p.PID] || x.taken[p.ID]
}

// gateway is what can be said of a gateway.
func (x *index) gateway(id proc.ID) gateway {
	life := x.h.Lives(id)
	g := gateway{ID: id, State: life.String()}
	if p := x.byPID[id.PID]; p != nil && life == proc.Alive {
		g.Command = session.Line(p.Args)
	}
	return g
}

// gatewayOf is the gateway that a mark or a label names. Without a boot its pid may be of any pid namespace.
func (x *index) gatewayOf(text string) gateway {
	g, err := proc.ParseGlobalID(text)
	switch {
	case err == nil && g.Host == x.h.Host:
		return x.gateway(g.ID)
	case err == nil && g.Boot != "" && g.Boot != x.h.Boot:
		return gateway{ID: g.ID, State: proc.Dead.String()}
	}
	return gateway{ID: g.ID, State: proc.Unknown.String()}
}
