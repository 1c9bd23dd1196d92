package reap

import (
	"cmp"
	"slices"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// extent says which processes belong to a tree.
type extent struct {
	// uid is the only user whose processes belong to it; -1 for every user.
	uid int
	// newborns adds processes that started after the pass began.
	newborns bool
	// keep are patterns of processes to leave alone, with all below them.
	keep []string
	// session is the id of the dead session that it was, "" for none.
	session string
	// stuck gets the processes in it that could not be read; nil for none.
	stuck func(*process)
}

// tree collects the given processes, all below them, and the terminal sessions that these lead. It leaves out the spared, and what
// belongs to another living session.
func (x *index) tree(tops []*process, e extent) []*process {
	var (
		out   []*process
		seen  = map[int]bool{}
		queue = append([]*process(nil), tops...)
	)
	isNamed := func(a *process) bool { return teardown.KeptBy(e.keep, a.Comm, a.Args) }
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if x.inLine(p, isNamed) || !x.kept[p.PID] && x.belongs(p, e.session) != "" {
			// It is kept for every other rule of this pass as well.
			x.keepTree(p)
		}
		// A wrapper further down has lost its gateway with this session, and ends its own tree.
		if seen[p.PID] || x.kept[p.PID] || isTether(p) {
			continue
		}
		seen[p.PID] = true
		if p.Stuck && e.stuck != nil {
			e.stuck(p)
		}
		if !x.untouchable(p) && (e.newborns || p.Start < x.h.Since) && (e.uid < 0 || p.UID == e.uid) {
			out = append(out, p)
		}
		for _, pid := range x.table.Children(p.PID) {
			queue = append(queue, x.byPID[pid])
		}
		if p.Stat.Session == p.PID {
			queue = append(queue, x.inSession(p)...)
		}
	}
	return out
}

// inSession lists the processes of the terminal session that a process leads.
func (x *index) inSession(leader *process) []*process {
	var out []*process
	for i := range x.h.Procs {
		if p := &x.h.Procs[i]; p.Stat.Session == leader.PID && p.Start >= leader.Start {
			out = append(out, p)
		}
	}
	return out
}

// fill sets the members of a finding, and names the eldest of them first. newborns says that what started after the pass began is
// one, too.
func (x *index) fill(f *Finding, tops []*process, newborns bool) {
	g := &f.group
	members := x.tree(tops, extent{
		uid: f.onlyUser(), newborns: newborns, keep: g.Keep, session: f.Session, stuck: func(p *process) { f.stuck = p.stuck() },
	})
	for _, m := range members {
		x.taken[m.ID] = true
		f.Members = append(f.Members, m.ID)
	}
	g.Seeds, g.Spared, g.UID, g.KeepNothing = f.Members, x.keptOf(f.Session), f.onlyUser(), x.keepsNothing(f.Session)
	g.Session = f.Session
	for _, m := range members[:min(len(members), proc.MaxNamed)] {
		f.fates = append(f.fates, session.FateOf(m.Stat, m.Args, session.Reaped))
	}
	f.runsContainer = slices.ContainsFunc(members, func(m *process) bool { return clients.RunsContainer(m.Args) })
	if len(members) == 0 {
		return
	}
	eldest := slices.MinFunc(members, func(a, b *process) int { return cmp.Compare(a.Start, b.Start) })
	f.Top = eldest.ID
	if len(f.Command) == 0 {
		f.Command = session.Redact(eldest.Args)
	}
}

// keptOf are the processes of a session that are kept: what they start while the session is ended is kept as well.
func (x *index) keptOf(id string) (out []proc.ID) {
	for i := range x.h.Procs {
		if p := &x.h.Procs[i]; id != "" && x.kept[p.PID] && x.mine(p) && (p.Mark == id || x.belongings[p.ID].session == id) {
			out = append(out, p.ID)
		}
	}
	return out
}
