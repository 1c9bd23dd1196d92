package reap

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-tether/clients"
	"mcp-tether/proc"
	"mcp-tether/session"
)

// Rules are what the user may choose about finding.
type Rules struct {
	// Match tells whether a command line of a user is that of a known MCP server, and its name.
	Match func(uid int, args []string) (name string, ok bool)
	// Image tells whether a known MCP server is started from an image, and its name; nil for none.
	Image func(uid int, image string) (name string, ok bool)
	// SurplusOver is how many servers of one kind a gateway may have.
	SurplusOver int
	// MinAge spares processes that are younger, in clock ticks.
	MinAge uint64
	// Session limits the pass to one session id; "" means all.
	Session string
}

// Find applies the rules to a host. It is pure but for the questions that Host answers, and never names a process
// twice.
func find(h *host, r Rules) []Finding {
	x := newIndex(h)
	var out []Finding
	out = append(out, x.records(r)...)
	out = append(out, x.marks(r)...)
	out = append(out, x.leaves(r)...)
	out = append(out, x.labelled(r)...)
	if r.Session == "" {
		out = append(out, x.unwrapped(r)...)
		out = append(out, x.lookAlikes(r)...)
		out = append(out, x.surplusSessions(r)...)
	}
	out = append(out, x.suspects...)
	return slices.DeleteFunc(out, func(f Finding) bool { return x.tooYoung(f, r) })
}

func (x *index) tooYoung(f Finding, r Rules) bool {
	if r.MinAge == 0 {
		return false
	}
	if f.Top.Zero() {
		return f.born.Add(time.Duration(r.MinAge) * proc.Tick).After(x.h.Began)
	}
	return f.Top.Start+r.MinAge > x.h.Since
}

// records: the lease is free, so the supervisor is dead; the scope is what carries the mark, is in the leaf, is the
// server itself, or is below any of these.
func (x *index) records(r Rules) []Finding {
	var out []Finding
	for i := range x.h.Sessions {
		s := &x.h.Sessions[i]
		wanted := r.Session == "" || r.Session == s.ID
		if !wanted || s.Held || !s.Lease || !x.mine(s.Owner) || s.UID != s.Owner {
			continue
		}
		if f, ok := x.record(s); ok {
			out = append(out, f)
		}
	}
	return out
}

func (x *index) record(s *storedSession) (Finding, bool) {
	f := Finding{Class: classRecord, Session: s.ID, Name: s.Name, UID: s.UID, Command: s.Args, record: s.Dir, socket: s.Socket, keep: s.Keep}
	f.Gateway = x.gateway(s.Gateway)
	if s.Host.Boot != x.h.Boot {
		f.Gateway.State = proc.Dead.String()
		f.Evidence = []string{"its record is from another boot: every process of it ended then"}
		x.claim(&f, s)
		return f, true
	}
	if s.Host != x.h.Host || x.supervised[s.ID] || x.h.Lives(s.Anchor) == proc.Alive {
		// Another pid namespace, a living supervisor, or an anchor that is about to recover.
		return f, false
	}
	f.Evidence = []string{"the lease of its record is free: the supervisor (pid " + fmt.Sprint(s.Supervisor.PID) + ") is dead"}
	var tops []*process
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if p.Session == s.ID || p.ID == s.Server && !s.Server.Zero() {
			tops = append(tops, p)
		}
	}
	if leaf := x.leafOf(s.ID); leaf != nil && leaf.UID == s.Owner {
		f.leaf = leaf.Dir
		f.anyUser = leaf.UID == 0 // a root session may drop privileges
		f.Evidence = append(f.Evidence, "its cgroup is "+leaf.Dir)
		tops = append(tops, x.inLeaf(leaf)...)
	}
	x.fill(&f, tops, scope{uid: s.UID, sessions: true, newborns: true, keep: s.Keep})
	x.claim(&f, s)
	return f, true
}

func (x *index) leafOf(id string) *cgroupLeaf {
	for i := range x.h.Leaves {
		if x.h.Leaves[i].ID == id {
			return &x.h.Leaves[i]
		}
	}
	return nil
}

func (x *index) inLeaf(l *cgroupLeaf) []*process {
	var out []*process
	for _, pid := range l.PIDs {
		if p := x.byPID[pid]; p != nil {
			out = append(out, p)
		}
	}
	return out
}

// fill sets the members of a finding and the process to name first: the eldest.
func (x *index) fill(f *Finding, tops []*process, sc scope) {
	if f.anyUser {
		sc.uid = -1
	}
	members := x.tree(tops, sc)
	f.Members = x.take(members)
	var top *process
	for _, m := range members {
		if top == nil || m.Start < top.Start {
			top = m
		}
	}
	if top == nil {
		return
	}
	f.Top = top.ID
	if len(f.Command) == 0 {
		f.Command = session.Redact(top.Args)
	}
}

// marks: the environment names a session that no supervisor looks after, and a gateway that is dead.
func (x *index) marks(r Rules) []Finding {
	type owner struct {
		session string
		uid     int
	}
	bySession := map[owner][]*process{}
	var order []owner
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if p.Session == "" || x.spared(p) || !x.mine(p.UID) || x.supervised[p.Session] || r.Session != "" && r.Session != p.Session {
			continue
		}
		key := owner{p.Session, p.UID}
		if bySession[key] == nil {
			order = append(order, key)
		}
		bySession[key] = append(bySession[key], p)
	}
	var out []Finding
	for _, key := range order {
		if f, ok := x.mark(key.session, bySession[key]); ok {
			out = append(out, f)
		}
	}
	return out
}

func (x *index) mark(id string, marked []*process) (Finding, bool) {
	f := Finding{Class: classMark, Session: id, UID: marked[0].UID}
	marked = slices.DeleteFunc(marked, func(p *process) bool {
		return x.tethered(p) || x.taken[p.ID] || !x.h.Inside(p.PID)
	})
	if len(marked) == 0 {
		return f, false
	}
	g, err := proc.ParseGlobalID(marked[0].Gateway)
	switch {
	case err != nil:
		return f, false
	case g.Host.Boot != x.h.Boot || g.Host != x.h.Host:
		return f, false
	}
	f.Gateway = x.gateway(g.ID)
	f.Evidence = []string{"its environment names session " + id + ", which no supervisor looks after"}
	hidden := slices.ContainsFunc(marked, func(p *process) bool { return !x.rooted(p) })
	if hidden {
		f.Evidence = append(f.Evidence, "an ancestor of it cannot be seen")
	}
	if x.h.Lives(g.ID) != proc.Dead || hidden {
		f.Class, f.Advice = classSuspect, "its gateway is not known to be dead: end it by hand if you know better"
		f.Evidence = append(f.Evidence, fmt.Sprintf("its gateway (pid %d) is %s", g.PID, f.Gateway.State))
	} else {
		f.Evidence = append(f.Evidence, fmt.Sprintf("its gateway (pid %d) is dead", g.PID))
	}
	f.keep = x.keepOf(id)
	x.fill(&f, marked, scope{uid: f.UID, sessions: true, keep: f.keep})
	return f, len(f.Members) > 0
}

// keepOf are the patterns of what a session keeps, as far as records tell.
func (x *index) keepOf(id string) []string {
	var out []string
	for i := range x.h.Sessions {
		if x.h.Sessions[i].ID == id {
			out = append(out, x.h.Sessions[i].Keep...)
		}
	}
	return out
}

// leaves: a cgroup of ours whose session is dead.
func (x *index) leaves(r Rules) []Finding {
	var out []Finding
	for i := range x.h.Leaves {
		l := &x.h.Leaves[i]
		if r.Session != "" && r.Session != l.ID || x.supervised[l.ID] || !x.mine(l.UID) || x.recorded(l.ID) {
			continue
		}
		tops := x.inLeaf(l)
		outside := func(p *process) bool { return !x.h.Inside(p.PID) }
		if slices.ContainsFunc(tops, x.tethered) || slices.ContainsFunc(tops, outside) {
			continue
		}
		out = append(out, x.leaf(l, tops))
	}
	return out
}

func (x *index) leaf(l *cgroupLeaf, tops []*process) Finding {
	f := Finding{Class: classCgroup, Session: l.ID, UID: l.UID, leaf: l.Dir, Gateway: gateway{State: proc.Unknown.String()}}
	f.Evidence = []string{"cgroup " + l.Dir + " is ours and no supervisor looks after its session"}
	if doubt := x.doubt(l, tops); doubt != "" {
		f.Class, f.Advice = classSuspect, "not proven: look at it, and end it by hand if it is nobody's"
		f.Evidence = append(f.Evidence, doubt)
	}
	f.anyUser = l.UID == 0 // a root session may drop privileges
	x.fill(&f, tops, scope{uid: l.UID})
	return f
}

// doubt says why a leaf might be looked after all the same, by a supervisor whose records we do not see: a member or an
// ancestor is hidden, or a member has a living parent that is neither a member nor a reaper.
func (x *index) doubt(l *cgroupLeaf, tops []*process) string {
	if len(tops) < len(l.PIDs) {
		return "a member of it cannot be seen"
	}
	for _, p := range tops {
		if p.Dead() {
			continue
		}
		if !x.rooted(p) {
			return "an ancestor of a member cannot be seen"
		}
		if up := x.parent(p); up != nil && !slices.Contains(l.PIDs, up.PID) && !isReaper(up) {
			return fmt.Sprintf("pid %d (%s) is the parent of a member and may look after it", up.PID, up.Comm)
		}
	}
	return ""
}

func (x *index) recorded(id string) bool {
	return slices.ContainsFunc(x.h.Sessions, func(s storedSession) bool { return s.ID == id })
}

// unwrapped: known servers that were never wrapped, by their topmost process.
func (x *index) unwrapped(r Rules) []Finding {
	if r.Match == nil {
		return nil
	}
	var (
		out   []Finding
		seen  = map[int]bool{}
		under = map[string]*Finding{}
		order []string
	)
	for i := range x.h.Procs {
		p := &x.h.Procs[i]
		if x.spared(p) || !x.mine(p.UID) || isTether(p) {
			continue
		}
		name, ok := r.Match(p.UID, p.Args)
		if !ok {
			continue
		}
		top := x.top(p, r)
		if seen[top.PID] || x.spared(top) || x.tethered(top) || !x.h.Inside(top.PID) {
			continue
		}
		seen[top.PID] = true
		g, known := x.liveGateway(top)
		if g != nil {
			x.countUnder(g, top, name, under, &order)
			continue
		}
		if f, ok := x.orphan(top, name, known); ok {
			out = append(out, f)
		}
	}
	for _, key := range order {
		if f := under[key]; f.Count > r.SurplusOver {
			out = append(out, *f)
		}
	}
	return out
}

// top climbs from a server to the launcher that was started for it.
func (x *index) top(p *process, r Rules) *process {
	for range maxClimb {
		up := x.parent(p)
		if up == nil || up.PID <= 1 || isReaper(up) || x.ancestors[up.PID] {
			return p
		}
		_, matched := r.Match(up.UID, up.Args)
		if !matched && !(proc.IsLauncher(up.Comm) && clients.Mentions(up.Args, p.Args)) {
			return p
		}
		p = up
	}
	return p
}

// isReaper reports whether a process adopts orphans as its office: being its child says nothing.
func isReaper(p *process) bool {
	switch p.Comm {
	case "systemd", "init", "launchd", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runsvdir", "containerd-shim":
		return true
	}
	return p.PID == 1
}

// liveGateway is the nearest ancestor that is neither launcher nor reaper. known is false when the way up leads to a
// process that is not in the table: hidden, outside of the pid namespace, or gone while the table was read.
func (x *index) liveGateway(top *process) (g *process, known bool) {
	p := top
	for range maxClimb {
		if p.PPID == 1 {
			return nil, true
		}
		if p = x.parent(p); p == nil {
			return nil, false
		}
		if !isReaper(p) && !proc.IsLauncher(p.Comm) {
			return p, true
		}
		if p.PID == 1 {
			return nil, true
		}
	}
	return nil, false
}

// orphan judges a server without a gateway among its ancestors by the other end of its standard input.
func (x *index) orphan(top *process, name string, known bool) (Finding, bool) {
	f := Finding{Class: classSevered, Name: name, UID: top.UID, Gateway: gateway{State: proc.Dead.String()}}
	f.Evidence = []string{fmt.Sprintf("no gateway among its ancestors (parent is pid %d)", top.PPID)}
	in := x.h.Stdin(top.PID)
	f.Evidence = append(f.Evidence, in.Why)
	if !known {
		f.Evidence = append(f.Evidence, "an ancestor of it cannot be seen")
	}
	if in.Far != proc.Severed || !known {
		f.Class, f.Gateway.State = classSuspect, proc.Unknown.String()
		f.Advice = "not proven: look at it, and end it by hand if it is nobody's"
		if holder := x.h.Holder(in); holder > 0 {
			if x.isAncestor(holder, top) {
				return f, false
			}
			f.Evidence = append(f.Evidence, fmt.Sprintf("pid %d holds the other end", holder))
		}
	}
	x.fill(&f, []*process{top}, scope{uid: top.UID, sessions: true})
	f.Top, f.Command = top.ID, session.Redact(top.Args)
	return f, len(f.Members) > 0
}

func (x *index) isAncestor(pid int, of *process) bool {
	for p, n := x.parent(of), 0; p != nil && n < maxClimb; p, n = x.parent(p), n+1 {
		if p.PID == pid {
			return true
		}
	}
	return false
}

// countUnder adds a server to the count of its kind under a living gateway.
func (x *index) countUnder(g, top *process, name string, under map[string]*Finding, order *[]string) {
	key := g.ID.String() + "\x00" + name
	f := under[key]
	if f == nil {
		f = &Finding{Class: classSurplus, Name: name, UID: top.UID, Top: top.ID, Command: session.Redact(top.Args)}
		f.Gateway = x.gateway(g.ID)
		f.Advice = surplusAdvice
		under[key] = f
		*order = append(*order, key)
	}
	f.Count++
	for _, m := range x.tree([]*process{top}, scope{uid: top.UID}) {
		f.Members = append(f.Members, m.ID)
	}
	f.Evidence = []string{fmt.Sprintf("%d servers of this kind under one living gateway (pid %d)", f.Count, g.PID)}
}

const surplusAdvice = "the gateway starts a server for each session and lets none go: restart it when it is idle, and put " +
	"'mcp-tether run --hibernate 10m --' before the command so that servers end with their session and idle ones sleep"

// surplusSessions: living sessions of one gateway with the same command.
func (x *index) surplusSessions(r Rules) []Finding {
	kinds := map[string]*Finding{}
	var order []string
	for i := range x.h.Sessions {
		s := &x.h.Sessions[i]
		if !s.Held || s.Host != x.h.Host || !x.mine(s.Owner) {
			continue
		}
		key := s.Gateway.String() + "\x00" + strings.Join(s.Args, "\x00")
		f := kinds[key]
		if f == nil {
			f = &Finding{Class: classSurplus, Name: s.Name, UID: s.UID, Top: s.Server, Command: s.Args, Gateway: x.gateway(s.Gateway)}
			f.Advice = "the gateway lives and keeps these sessions open: end those you know to be idle with mcp-tether stop, " +
				"or let idle ones sleep: run --hibernate"
			kinds[key] = f
			order = append(order, key)
		}
		f.Count++
		f.Members = append(f.Members, s.Server)
		f.Evidence = []string{fmt.Sprintf("%d living sessions of this kind under one gateway (pid %d)", f.Count, s.Gateway.PID)}
	}
	var out []Finding
	for _, key := range order {
		if kinds[key].Count > r.SurplusOver {
			out = append(out, *kinds[key])
		}
	}
	return out
}

func (x *index) gateway(id proc.ID) gateway {
	g := gateway{ID: id, State: proc.Unknown.String()}
	if id.Zero() {
		return g
	}
	life := x.h.Lives(id)
	g.State = life.String()
	if p := x.byPID[id.PID]; p != nil && life == proc.Alive {
		g.Command = session.Line(p.Args)
	}
	return g
}
