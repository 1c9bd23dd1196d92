package reap

import (
	"errors"
	"fmt"

	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// A scene adds a part of a machine's history, and says what every process in it deserves.

var scenes = []struct {
	name string
	play func(*world)
}{
	{"living session", (*world).livingSession},
	{"dead session", (*world).deadSession},
	{"dead session", (*world).deadSession},
	{"session that kept processes", (*world).keptProcesses},
	{"nested sessions", (*world).nestedSessions},
	{"recovering anchor", (*world).recoveringAnchor},
	{"living gateway without wrapper", (*world).livingGateway},
	{"gateway that drops servers", (*world).droppedServers},
	{"hidden by a hostile user", (*world).hiddenByOthers},
	{"environment inherited elsewhere", (*world).inheritedMarks},
	{"unwrapped and orphaned", (*world).orphanedServers},
	{"unwrapped and orphaned", (*world).orphanedServers},
	{"hidden gateway", (*world).hiddenGateway},
	{"service", (*world).service},
	{"gateway is init", (*world).initGateway},
	{"reused pids", (*world).reusedPIDs},
	{"forged records", (*world).forgedRecords},
	{"other boots and namespaces", (*world).otherHosts},
	{"namespaces that may be gone", (*world).otherNamespaces},
	{"set-user-ID programs that are told lies", (*world).setuidSpeakers},
	{"one-shot callers", (*world).oneShots},
	{"other namespace", (*world).container},
	{"newborns", (*world).newborns},
	{"bystanders", (*world).bystanders},
	{"parent's pid reused during the scan", (*world).staleParents},
	{"containers from elsewhere", (*world).crossedContainers},
	{"containers of an earlier boot", (*world).oldContainers},
	{"containers of nobody", (*world).plainContainers},
}

func (w *world) gatewayUnder(parent *actor) *actor {
	uid := parent.UID
	if parent == w.init {
		uid = w.anyUID()
	}
	g := w.add(parent, uid, pick(w, "codex", "node", "claude", "python3"), "gateway", fmt.Sprint(w.IntN(3)))
	g.setsid()
	return g
}

func (w *world) anyGateway() *actor { return w.gatewayUnder(pick(w, w.init, w.login)) }

// livingSession: innocent whatever has become of its gateway, its record or its lease.
func (w *world) livingSession() {
	s := w.wrap(w.anyGateway())
	if w.chance(30) {
		w.end(s.gateway) // the teardown is under way
	}
	if s.rec != nil && w.chance(15) {
		s.rec.Held, s.rec.Unread = true, errors.New("not known")
	}
	w.settle(s)
}

// deadSession: both wrappers were killed together.
func (w *world) deadSession() {
	s := w.wrap(w.anyGateway())
	w.kill(s)
	w.settle(s)
	w.judge(s)
}

// keptProcesses: the session has ended, and nothing of it is left but what it has kept. That changes its name, starts
// others, and ends.
func (w *world) keptProcesses() {
	s := w.wrap(w.anyGateway())
	s.rec, s.leaf = nil, nil
	w.judgeCrates(s)
	for _, m := range s.members {
		if !m.kept {
			w.end(m)
		}
	}
	w.end(s.sup)
	w.end(s.anchor)
	if w.chance(80) {
		w.end(s.gateway)
	}
	for _, m := range s.members {
		if m.gone {
			continue
		}
		if w.chance(40) {
			w.add(m, m.UID, "worker", "worker").role = "started by one that was kept of " + s.id
		}
		switch w.IntN(4) {
		case 0:
			m.Comm, m.Args = "renamed", []string{"renamed"}
		case 1:
			w.end(m)
		}
	}
}

// kill ends the wrappers, mostly the gateway and the server too.
func (w *world) kill(s *wrapped) {
	if w.chance(75) {
		w.end(s.gateway)
	} else if w.chance(30) {
		w.hidden[s.gateway.ID] = true
	}
	w.end(s.anchor)
	w.end(s.sup)
	if w.chance(70) {
		w.end(s.server) // by its death signal
	}
	if s.rec != nil {
		s.rec.Held = false
		if w.chance(5) {
			s.rec.Held, s.rec.Unread = true, errors.New("not known")
		}
	}
}

// judge says which processes are proven to belong to a dead session.
func (w *world) judge(s *wrapped) {
	for _, m := range s.members {
		m.verdict = either
	}
	again := true
	for again {
		again = false
		for _, m := range s.members {
			if m.verdict != guilty && !m.gone && (w.proven(s, m) || m.parent != nil && m.parent.verdict == guilty && m.parent.UID == m.UID) {
				m.verdict, again = guilty, true
			}
		}
	}
	for _, m := range s.members {
		if m.verdict == guilty && m.underAnotherUser() {
			m.verdict = either // its user's pass does not see whether that parent is a part of the session
		}
		if w.isKept(s, m) {
			m.verdict = innocent
		} else if m.kept || m.Keep {
			m.verdict = either
		}
	}
	if s.rec != nil && s.rec.Held {
		for _, m := range s.members {
			m.verdict = innocent // nothing is known of the supervisor
			if m.UID != s.uid {
				m.verdict = either // its user's pass does not see the record
			}
		}
	}
	w.judgeCrates(s)
}

// underAnotherUser reports whether a process, or one above it, was started by a living process of another user.
func (a *actor) underAnotherUser() bool {
	for p := a; p.parent != nil && !p.parent.gone && !p.parent.subreaper; p = p.parent {
		if p.parent.UID != p.UID {
			return true
		}
	}
	return false
}

// isKept: meant to stay, as far as can be known: by KEEP, a pattern of the record, or --keep without one (a root session's members of other
// users say nothing to root), or a living parent with one of them.
func (w *world) isKept(s *wrapped, m *actor) bool {
	for p := m; p != nil && !p.gone; p = p.parent {
		named := s.pattern != "" && p.kept && p.Comm == "chrome"
		if (p.Keep || named && p.Keeps && p.UID == s.uid) && p.UID == m.UID && w.mine(p.UID) || named && s.rec != nil {
			return true
		}
	}
	return false
}

func (w *world) proven(s *wrapped, m *actor) bool {
	if !w.mine(m.UID) || m.kept {
		return false
	}
	marked := m.process.Mark == s.id
	inLeaf := s.leaf != nil && s.leaf.UID == s.uid
	if s.rec != nil {
		return !s.rec.Held && m.UID == s.uid && (marked || inLeaf || m == s.server)
	}
	gatewayDead := s.gateway.gone && !w.hidden[s.gateway.ID]
	return s.pattern == "" && (marked && gatewayDead && !w.underWrapper(m) || inLeaf && m.UID == s.uid && !w.wrapperIn(s))
}

func (w *world) underWrapper(m *actor) bool {
	for p := m.parent; p != nil; p = p.parent {
		if !p.gone && p.Comm == "mcp-tether" {
			return true
		}
	}
	return false
}

// wrapperIn reports whether a member of the leaf is below a living wrapper: then the leaf is left to that wrapper.
func (w *world) wrapperIn(s *wrapped) bool {
	for _, m := range s.members {
		if !m.gone && w.underWrapper(m) {
			return true
		}
	}
	return false
}

// nestedSessions: a server is a gateway itself. The outer session may die, or the inner one.
func (w *world) nestedSessions() {
	outer := w.wrap(w.anyGateway())
	inner := w.wrap(outer.server)
	switch w.IntN(3) {
	case 0:
		w.settle(outer)
		w.settle(inner)
	case 1:
		w.kill(inner)
		w.settle(outer)
		w.settle(inner)
		w.judge(inner)
		outer.server.verdict = innocent
	default:
		w.kill(outer)
		w.settle(outer)
		w.settle(inner)
		w.judge(outer)
		// The inner wrapper has lost its gateway, or will, and ends its own.
		for _, c := range inner.crates {
			c.verdict = innocent
		}
		for _, m := range append(inner.members, inner.sup, inner.anchor, inner.launcher) {
			if m != nil {
				m.verdict = either
			}
		}
	}
}

// recoveringAnchor: the supervisor is dead, its lease is free, and the anchor is about to take over.
func (w *world) recoveringAnchor() {
	s := w.wrap(w.anyGateway())
	if s.anchor != nil {
		w.end(s.sup)
		if s.rec != nil {
			s.rec.Held = false
		}
	}
	w.settle(s)
}

// start starts a server without a wrapper, by one of the ways of the gateways, and gives all of its processes.
func (w *world) start(parent *actor, stdin evidence.Stdin) []*actor {
	uid := parent.UID
	var chain []*actor
	switch command := pick(w, commands...); command[0] {
	case "npx":
		npx := w.add(parent, uid, "npm exec @scope", "npm exec @scope/server-x")
		sh := w.add(npx, uid, "sh", "sh", "-c", "mcp-server-x")
		chain = []*actor{npx, sh, w.add(sh, uid, "node", "node", "/h/node_modules/.bin/mcp-server-x")}
	case "uvx":
		uvx := w.add(parent, uid, "uvx", command...)
		chain = []*actor{uvx, w.add(uvx, uid, "python", "/c/bin/python", "/c/bin/mcp-server-git")}
	default:
		chain = []*actor{w.add(parent, uid, "fs-server", command...)}
	}
	last := chain[len(chain)-1]
	for range w.IntN(4) {
		h := w.add(last, uid, "chrome", "/opt/chrome", "--type=renderer")
		if w.chance(50) {
			h.setsid()
		}
		chain = append(chain, h)
	}
	for _, a := range chain {
		a.stdin, a.role = stdin, "unwrapped "+a.Comm
	}
	return chain
}

func (w *world) anyStdin(holder *actor) (evidence.Stdin, *actor) {
	switch w.IntN(4) {
	case 0:
		return evidence.Stdin{Far: evidence.Severed, Why: "severed"}, nil
	case 1:
		return evidence.Stdin{Far: evidence.FarHeld, Why: "held", Peer: w.Uint64() | 1}, holder
	case 2:
		return evidence.Stdin{Far: evidence.FarHeld, Why: "held by somebody unseen"}, nil
	}
	return evidence.Stdin{Why: "unknown"}, nil
}

// livingGateway: its servers have the same command lines as all others, and a stdin that is not let go of.
func (w *world) livingGateway() {
	g := w.anyGateway()
	for range 1 + w.IntN(4) {
		in, holder := w.anyStdin(g)
		if in.Far == evidence.Severed {
			in = evidence.Stdin{Far: evidence.FarHeld, Why: "held by somebody unseen"}
		}
		for _, a := range w.start(g, in) {
			if holder != nil {
				a.holder = holder.PID
			}
		}
	}
}

// droppedServers: the gateway lives and has let go of some of its servers. Those that can be reached by a socket, or
// whose answers another process gets, are in use.
func (w *world) droppedServers() {
	g := w.anyGateway()
	reader := w.add(w.login, g.UID, "jq", "jq", ".")
	for range 1 + w.IntN(4) {
		chain := w.start(g, evidence.Stdin{Far: evidence.Severed, Why: "severed"})
		last := chain[0]
		for _, a := range chain {
			if a.Comm != "chrome" {
				last = a
			}
		}
		used := true
		switch w.IntN(5) {
		case 0:
			last.reached = "it listens"
		case 1:
			chain[0].elsewhere = true
		case 2:
			chain[0].readers = []int{last.PID, reader.PID}
		default:
			chain[len(chain)-1].readers = []int{last.PID}
			chain[0].readers = []int{last.PID}
			used = false
		}
		if used || !w.mine(g.UID) {
			continue
		}
		for _, a := range chain {
			a.verdict = guilty
			if a.Comm == "chrome" && w.chance(20) {
				a.reached = "a browser listens" // that is no way to the server
			}
		}
	}
}

// hiddenByOthers: a user claims another user's dead session, by a command line, a lock, and a record that keeps
// everything from process 1 on. What is left of the session deserves what it deserved without that.
func (w *world) hiddenByOthers() {
	s := w.wrap(w.anyGateway())
	w.kill(s)
	w.settle(s)
	w.judge(s)
	forger := w.add(w.init, 1666, "x", "x", "__session")
	w.add(forger, 1666, "child", "child")
	claim := storedSession{Stored: inDirOf(1666)}
	claim.Held = w.chance(60)
	claim.Record = session.Record{
		Version: 1, ID: s.id, Host: here, UID: 1666, Keeping: session.Keeping{Keep: []string{"*"}},
		Processes: session.Processes{Server: w.init.ID, Supervisor: forger.ID, Gateway: proc.ID{PID: 1 << 21, Start: 1}},
	}
	w.h.Sessions = append(w.h.Sessions, claim)
	w.h.Leaves = append(w.h.Leaves, cgroupLeaf{Dir: "/sys/fs/cgroup/y/mcp-tether-" + s.id, ID: s.id, UID: 1666, PIDs: []int{w.init.PID}})
}

// inheritedMarks: a living process that is no part of the session starts others with the environment of one that was.
func (w *world) inheritedMarks() {
	g := w.anyGateway()
	s := w.wrap(g)
	w.kill(s)
	w.settle(s)
	w.judge(s)
	server := w.add(w.init, s.uid, pick(w, "tmux: server", "emacs", "code"), "daemon")
	server.setsid()
	for range 1 + w.IntN(3) {
		shell := w.add(server, s.uid, "bash", "-bash")
		shell.process.Mark, shell.Gateway = s.id, proc.GlobalID{ID: g.ID, Host: here}.String()
		if w.chance(50) {
			shell.setsid()
		}
		w.add(shell, s.uid, "vim", "vim")
		if s.rec != nil {
			for _, a := range w.all[len(w.all)-2:] {
				a.verdict = either // the record proves the session dead, and the mark is in their environment
			}
		}
	}
}

// orphanedServers: the gateway is dead. Only a severed stdin proves that no process uses the server.
func (w *world) orphanedServers() {
	g := w.anyGateway()
	sibling := w.gatewayUnder(w.login)
	in, holder := w.anyStdin(sibling)
	chain := w.start(g, in)
	w.end(g)
	if len(chain) > 1 && w.chance(40) {
		w.end(chain[0]) // the launcher died first
	}
	top := chain[0]
	if top.gone {
		top = chain[1]
	}
	keep := w.chance(10)
	reached := w.chance(10) && top.Comm != "chrome"
	if reached {
		top.reached = "it listens"
	}
	for _, a := range chain {
		if holder != nil {
			a.holder = holder.PID
		}
		if keep {
			a.Keep, a.kept = true, true
		}
		if in.Far != evidence.Severed || keep || reached || !w.mine(a.UID) {
			continue
		}
		a.verdict = either
		if !a.gone && (a == top || a.below(top)) && w.knownTop(top) {
			a.verdict = guilty
		}
	}
}

// knownTop: a shell whose launcher died is known by its child.
func (w *world) knownTop(top *actor) bool { return top.Comm != "chrome" }

// hiddenGateway: it lives, but /proc does not show it (hidepid, or it is outside of our namespace).
func (w *world) hiddenGateway() {
	g := w.anyGateway()
	in, _ := w.anyStdin(nil)
	w.start(g, in)
	w.hidden[g.ID] = true
}

// service: started by a service manager with a stdin that tells nothing.
func (w *world) service() {
	manager := pick(w, w.init, w.login)
	if w.chance(50) {
		manager = w.add(w.init, 0, pick(w, "supervisord", "runsv", "s6-supervise", "cron", "tmux: server"), "manager")
	}
	w.start(manager, pick(w, evidence.Stdin{Why: "/dev/null"}, evidence.Stdin{Far: evidence.FarHeld, Why: "a journal socket", Peer: 7}))
}

// initGateway: the gateway is process 1 of a container.
func (w *world) initGateway() {
	for _, a := range w.start(w.init, evidence.Stdin{Far: evidence.FarHeld, Why: "held", Peer: w.Uint64() | 1}) {
		a.holder = w.init.PID
	}
}

// reusedPIDs: by now, other processes have the pids that a dead session's record and marks name.
func (w *world) reusedPIDs() {
	s := w.wrap(w.anyGateway())
	w.kill(s)
	w.end(s.server)
	w.end(s.gateway)
	delete(w.hidden, s.gateway.ID)
	w.settle(s)
	w.judge(s)
	for _, dead := range []*actor{s.gateway, s.anchor, s.sup, s.server} {
		if dead == nil || !dead.gone || !w.chance(60) {
			continue
		}
		dead.zombie = false
		w.tick++ // within one tick they could not be told apart
		now := w.add(pick(w, w.init, w.login), s.uid, "postgres", "postgres")
		now.PID, now.role = dead.PID, "took the pid of "+dead.role
		now.setsid()
		w.add(now, s.uid, "postgres", "postgres: child").role = "child of who took a pid"
	}
}

// forgedRecords: a user writes down what belongs to others. No process of another user may be touched.
func (w *world) forgedRecords() {
	victim := w.add(w.init, pick(w, 0, 1001), "sshd", "sshd")
	child := w.add(victim, victim.UID, "bash", "-bash")
	living := w.wrap(w.gatewayUnder(w.init))
	w.settle(living)
	s := storedSession{Stored: inDirOf(65534)}
	s.Record = session.Record{
		Version: 1, ID: fmt.Sprintf("%016x", w.Uint64()), Host: here, UID: pick(w, 65534, victim.UID), Processes: session.Processes{
			Server: pick(w, victim, child, living.server).ID, Supervisor: proc.ID{PID: 1 << 21, Start: 1}, Gateway: proc.ID{PID: 1 << 21, Start: 1},
		},
	}
	switch w.IntN(3) {
	case 0: // the id of another user's living session
		s.ID = living.id
	case 1: // a mark as well
		forger := w.add(w.init, 65534, "forger", "forger")
		forger.process.Mark, forger.Gateway = living.id, proc.GlobalID{ID: proc.ID{PID: 1 << 21, Start: 1}, Host: here}.String()
		forger.verdict = either
	}
	w.h.Sessions = append(w.h.Sessions, s)
}

// otherHosts: a record of another boot or pid namespace that names, by chance, exactly a process of ours.
func (w *world) otherHosts() {
	a := w.add(w.init, w.h.UID, "daemon", "daemon")
	w.add(a, w.h.UID, "worker", "worker")
	s := storedSession{Stored: inDirOf(w.h.UID)}
	s.Record = session.Record{Version: 1, ID: fmt.Sprintf("%016x", w.Uint64()), Host: here, UID: w.h.UID, Processes: session.Processes{Server: a.ID, Supervisor: a.ID}}
	if w.chance(50) {
		s.Host.Boot = "00000000-0000-4000-8000-000000000000"
	} else {
		s.Host.PIDNS++
	}
	w.h.Sessions = append(w.h.Sessions, s)
	if w.chance(50) {
		m := w.add(w.init, w.h.UID, "helper", "helper")
		m.process.Mark, m.Gateway = fmt.Sprintf("%016x", w.Uint64()), proc.GlobalID{ID: proc.ID{PID: 1 << 21, Start: 1}, Host: s.Host}.String()
	}
}

// otherNamespaces: records of sessions from other pid namespaces, with free leases. They name, by chance, processes of ours. They
// stay where something is in the cgroup.
func (w *world) otherNamespaces() {
	for range 1 + w.IntN(3) {
		a := w.add(w.init, w.h.UID, "daemon", "daemon")
		s := storedSession{Stored: inDirOf(w.h.UID)}
		s.Record = session.Record{Version: 1, ID: fmt.Sprintf("%016x", w.Uint64()), Host: here, UID: w.h.UID, Processes: session.Processes{Server: a.ID, Supervisor: a.ID}}
		s.Host.PIDNS += uint64(2 + len(w.over))
		used := w.chance(30)
		if used || w.chance(30) {
			leaf := cgroupLeaf{Dir: "/sys/fs/cgroup/z/mcp-tether-" + s.ID, ID: s.ID, UID: s.UID}
			if used {
				m := w.add(w.init, s.UID, "node", "node") // A runtime may have moved it there from anywhere.
				m.outside = w.chance(50)
				leaf.PIDs, leaf.Foreign = []int{m.PID}, m.outside
			}
			w.h.Leaves = append(w.h.Leaves, leaf)
		}
		w.h.Sessions = append(w.h.Sessions, s)
		w.over[s.ID] = !used
	}
}

// setuidSpeakers: a hostile user runs set-user-ID programs, of root and of the session's user, and tells them that they are a part
// of the dead session.
func (w *world) setuidSpeakers() {
	s := w.wrap(w.anyGateway())
	w.kill(s)
	w.settle(s)
	w.judge(s)
	for _, uid := range []int{0, s.uid} {
		speaker := w.add(w.init, uid, "passwd", "passwd")
		speaker.process.Mark, speaker.Gateway = s.id, proc.GlobalID{ID: s.gateway.ID, Host: here}.String()
		speaker.told = true
	}
}

// oneShots: callers that have asked one question wait for the answer, with the end of input behind the question. The caller may be
// the gateway, or a program beside it whose shell has ended.
func (w *world) oneShots() {
	g := w.anyGateway()
	chain := w.start(g, evidence.Stdin{Far: evidence.Severed, Why: "severed"})
	caller := g
	if w.chance(50) {
		caller = w.gatewayUnder(w.login)
		w.end(g)
	}
	chain[0].readers = []int{caller.PID}
	if w.chance(50) {
		chain[0].readers = []int{chain[len(chain)-1].PID, caller.PID}
	}
}

// container: processes of another pid namespace, with marks and servers of their own.
func (w *world) container() {
	shim := w.add(w.init, 0, "containerd-shim", "containerd-shim-runc-v2")
	top := w.add(shim, w.anyUID(), "node", "gateway")
	top.outside = true
	in, _ := w.anyStdin(nil)
	w.start(top, in)
	w.start(top, evidence.Stdin{Far: evidence.Severed, Why: "severed"})
	lost := w.add(top, top.UID, "helper", "helper")
	lost.process.Mark = fmt.Sprintf("%016x", w.Uint64())
	lost.Gateway = proc.GlobalID{ID: proc.ID{PID: 7, Start: 7}, Host: here}.String()
	if w.chance(50) {
		w.end(top)
	}
}

// newborns: started after the pass began.
func (w *world) newborns() {
	g := w.anyGateway()
	chain := w.start(g, evidence.Stdin{Far: evidence.Severed, Why: "severed"})
	w.end(g)
	marked := w.add(w.init, w.h.UID, "helper", "helper")
	marked.process.Mark = fmt.Sprintf("%016x", w.Uint64())
	marked.Gateway = proc.GlobalID{ID: proc.ID{PID: 1 << 21, Start: 1}, Host: here}.String()
	for _, a := range append(chain, marked) {
		a.Start += 1 << 40
		a.role = "newborn"
	}
}

// bystanders: orphans, daemons, shells and processes that look at a server.
func (w *world) bystanders() {
	severed := evidence.Stdin{Far: evidence.Severed, Why: "severed"}
	for _, args := range [][]string{
		{"/usr/sbin/daemon"}, {"node", "/srv/api.js"}, {"bash"}, {"vim", "/srv/notes"}, {"tail", "-f", "/var/log/mcp-server-git.log"},
		{"python3", "/srv/mcp-server-github"}, {"mcp-tether", "ps"}, nil,
	} {
		a := w.add(pick(w, w.init, w.login), w.anyUID(), "daemon", args...)
		a.stdin = severed
		w.add(a, a.UID, "child", "child")
	}
}

// staleParents: the table is no snapshot. Between the reading of a child and of its parent's pid, that pid may have
// changed hands: the "parent" is younger than its child then.
func (w *world) staleParents() {
	bystander := w.add(w.init, w.h.UID, "daemon", "daemon")
	w.add(bystander, w.h.UID, "worker", "worker").role = "below one with a stale parent"
	bystander.role = "older than its parent"
	s := w.wrap(w.gatewayUnder(w.login))
	w.kill(s)
	w.settle(s)
	w.judge(s)
	for _, m := range s.members {
		if !m.gone && m.verdict == guilty {
			bystander.PPID = m.PID
			if m.Stat.Session == m.PID && w.chance(50) {
				bystander.PPID, bystander.Stat.Session = 0, m.PID
			}
			return
		}
	}
}
