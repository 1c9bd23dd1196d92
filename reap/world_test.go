package reap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"mcp-tether/internal/clients"
	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// A world is a made-up machine of which the truth is known. It is built by telling its history. Processes start others,
// and when one ends, its children fall to the nearest subreaper, as in the kernel. What a pass would read of it is the
// machine. The pass does not know which process deserves what.
type world struct {
	*rand.Rand
	h    *machine
	all  []*actor
	tick uint64
	next int

	init   *actor
	login  *actor // some user's systemd --user or login daemon, under which gateways run
	self   *actor
	hidden map[proc.ID]bool
	scenes []string
	// over says of records from other pid namespaces whether the session is over.
	over map[string]bool
	// credulous is a fault: what a set-user-ID program was told counts as its user's word.
	credulous bool

	engine *knownEngine // what the pass sees of it is filled in by the method machine
	deaf   *knownEngine // does not answer
	crates []*crate
}

// verdict is what a process deserves.
type verdict uint8

const (
	innocent verdict = iota // must never be ended
	either                  // of a dead session, but nothing proves it
	guilty                  // proven: must be ended
)

// actor is one process with its truth.
type actor struct {
	process
	parent    *actor
	subreaper bool
	gone      bool
	zombie    bool
	outside   bool // in another pid namespace
	told      bool // by another user: it runs a set-user-ID program
	stdin     evidence.Stdin
	holder    int
	reached   string // by which socket
	elsewhere bool   // its output goes to a terminal or file
	readers   []int  // of its output
	verdict   verdict
	role      string
	kept      bool // kept on purpose, or below such a one
}

var here = proc.Host{Boot: "5f0a6c1e-0000-4000-8000-00000000b007", PIDNS: 4026531836}

func newWorld(seed, round uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, round)), hidden: map[proc.ID]bool{}, over: map[string]bool{}, tick: 100, next: 1}
	w.h = &machine{Host: here}
	if w.chance(40) {
		w.h.UID = 1000
	}
	w.init = w.add(nil, 0, pick(w, "systemd", "init", "tini", "dumb-init", "node"), "/sbin/init")
	w.init.subreaper = true
	w.next = 100
	w.login = w.init
	if w.chance(60) {
		w.login = w.add(w.init, w.h.UID, "systemd", "/usr/lib/systemd/systemd", "--user")
		w.login.subreaper = true
	}
	sshd := w.add(w.init, 0, "sshd", "sshd: u@pts/0")
	shell := w.add(sshd, w.h.UID, "bash", "-bash")
	w.self = w.add(shell, w.h.UID, "mcp-tether", "mcp-tether", "reap", "--kill")
	w.openEngines()
	return w
}

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

func pick[T any](w *world, from ...T) T { return from[w.IntN(len(from))] }

// add starts a process.
func (w *world) add(parent *actor, uid int, comm string, args ...string) *actor {
	a := &actor{parent: parent, role: comm}
	w.tick += uint64(w.IntN(50))
	a.ID, w.next = proc.ID{PID: w.next, Start: w.tick}, w.next+1+w.IntN(3)
	a.State, a.Threads, a.Comm, a.Args, a.UID = 'S', 1, comm, args, uid
	a.PGRP, a.Stat.Session = a.PID, a.PID
	if parent != nil {
		a.Stat.Session, a.PGRP = parent.Stat.Session, parent.PGRP
		a.process.Mark, a.Gateway, a.kept, a.outside, a.stdin, a.holder = parent.process.Mark, parent.Gateway, parent.kept, parent.outside, parent.stdin, parent.holder
		a.Keep, a.Keeps = parent.Keep, parent.Keeps
	}
	w.all = append(w.all, a)
	return a
}

// kind is the role without the session's id.
func (a *actor) kind() string {
	kind, _, _ := strings.Cut(a.role, " of ")
	return kind
}

func (a *actor) setsid() { a.Stat.Session, a.PGRP = a.PID, a.PID }

func (a *actor) clearEnv() { a.process.Mark, a.Gateway, a.Keep, a.Keeps = "", "", false, false }

// end ends a process; its children fall to the nearest living subreaper above it.
func (w *world) end(a *actor) {
	if a == nil || a.gone {
		return
	}
	a.gone = true
	a.zombie = w.chance(10)
	heir := a.parent
	for heir != nil && (heir.gone || !heir.subreaper) {
		heir = heir.parent
	}
	for _, c := range w.all {
		if c.parent == a {
			c.parent = heir
		}
	}
}

// below reports whether a living chain of parents leads from a to one of the given.
func (a *actor) below(of *actor) bool {
	for p := a.parent; p != nil; p = p.parent {
		if p == of {
			return true
		}
	}
	return false
}

// mine reports whether the pass may touch processes of a user.
func (w *world) mine(uid int) bool { return w.h.UID == 0 || w.h.UID == uid }

// anyUID is mostly the user of the pass.
func (w *world) anyUID() int {
	if w.chance(70) {
		return w.h.UID
	}
	return pick(w, 0, 1000, 1001)
}

// machine is what a pass reads of the world.
func (w *world) machine() *machine {
	h := w.h
	h.Self, h.Since = w.self.PID, w.tick+1
	h.Began, h.Machine = w.clock(h.Since), ourMachine
	w.closeEngines()
	byPID, byID := map[int]*actor{}, map[proc.ID]*actor{}
	w.Shuffle(len(w.all), func(i, j int) { w.all[i], w.all[j] = w.all[j], w.all[i] })
	for _, a := range w.all {
		if a.gone && !a.zombie || w.hidden[a.ID] {
			continue
		}
		byPID[a.PID], byID[a.ID] = a, a
		h.Procs = append(h.Procs, w.seen(a))
	}
	h.Lives = func(id proc.ID) proc.Life {
		a := byID[id]
		switch {
		case id.Zero() || w.hidden[id]:
			return proc.Unknown
		case a == nil || a.gone:
			return proc.Dead
		}
		return proc.Alive
	}
	h.Stdin = func(pid int) evidence.Stdin {
		if a := byPID[pid]; a != nil {
			return a.stdin
		}
		return evidence.Stdin{Why: "gone"}
	}
	h.User = func(int, []int) int { return 0 }
	h.Reached = func(pids, _ []int) string {
		for _, pid := range pids {
			if a := byPID[pid]; a != nil && a.reached != "" {
				return a.reached
			}
		}
		return ""
	}
	h.Stdout = func(pid int) (bool, []int) {
		if a := byPID[pid]; a != nil {
			return a.elsewhere, a.readers
		}
		return false, nil
	}
	h.Inside = func(pid int) bool { a := byPID[pid]; return a != nil && !a.outside }
	h.Holder = func(in evidence.Stdin) int {
		for _, a := range byPID {
			if in.Peer != 0 && a.stdin.Peer == in.Peer {
				return a.holder
			}
		}
		return 0
	}
	return h
}

// asEachUser makes the pass of every user, if the pass is root's: each reads what it may read.
func asEachUser(find finder) finder {
	return func(h *machine, r Rules) []Finding {
		uids := []int{h.UID}
		if h.UID == 0 {
			for i := range h.Procs {
				uids = append(uids, h.Procs[i].UID)
			}
			for i := range h.Sessions {
				uids = append(uids, ownerOf(&h.Sessions[i]))
			}
		}
		slices.Sort(uids)
		var out []Finding
		for _, uid := range slices.Compact(uids) {
			out = append(out, find(h.as(uid), r)...)
		}
		return out
	}
}

// inDirOf is a session in the directory of a user, whoever its record says that it is.
func inDirOf(uid int) session.Stored {
	return session.Stored{Dir: &session.Directory{Name: strconv.Itoa(uid)}}
}

// ownerOf is the user whose directory a session is in.
func ownerOf(s *storedSession) int {
	uid, _ := strconv.Atoi(s.Dir.Name)
	return uid
}

// as is the machine as the pass of one user reads it. No other user's pass reaches the engine of the model.
func (h *machine) as(uid int) *machine {
	own := *h
	own.UID = uid
	own.Sessions, own.Leaves, own.Procs = nil, nil, slices.Clone(h.Procs)
	for _, s := range h.Sessions {
		if ownerOf(&s) != uid {
			continue
		}
		if uid != h.UID {
			s.At = nil
		}
		own.Sessions = append(own.Sessions, s)
	}
	for _, l := range h.Leaves {
		if l.UID == uid {
			own.Leaves = append(own.Leaves, l)
		}
	}
	for i := range own.Procs {
		p := &own.Procs[i]
		if p.UID != uid {
			p.Mark, p.Gateway, p.Keep, p.Keeps = "", "", false, false
		}
		if p.UID != uid && p.UID != 0 {
			p.Args = nil
		}
	}
	if uid != h.UID {
		own.Engines = nil
	}
	return &own
}

// seen is one process as the pass reads it: other users' environments are closed to a user.
func (w *world) seen(a *actor) process {
	p := a.process
	if a.parent != nil && p.PPID == 0 {
		p.PPID = a.parent.PID
	}
	if a.gone {
		p.State, p.Threads, p.Args = 'Z', 0, nil
	}
	unread := a.told && !a.gone && !w.credulous
	if a.gone || !w.mine(a.UID) || unread {
		p.Mark, p.Gateway, p.Keep, p.Keeps = "", "", false, false
	}
	if unread {
		p.Args = nil
	}
	return p
}

// wrapped is a session as run makes it.
type wrapped struct {
	id                                     string
	uid                                    int
	gateway, launcher, anchor, sup, server *actor
	members                                []*actor
	rec                                    *storedSession
	leaf                                   *cgroupLeaf
	pattern                                string
	crates                                 []*crate
}

// wrap starts a session under a gateway.
func (w *world) wrap(gateway *actor) *wrapped {
	s := &wrapped{id: fmt.Sprintf("%016x", w.Uint64()), gateway: gateway, uid: gateway.UID}
	parent := gateway
	if w.chance(20) {
		parent = w.add(gateway, s.uid, "sh", "sh", "-c", "mcp-tether run -- server")
		s.launcher = parent
	}
	command := pick(w, commands...)
	if w.chance(80) {
		line := append([]string{"mcp-tether", "run", "--"}, command...)
		s.anchor = w.add(parent, s.uid, "mcp-tether", line...)
		s.anchor.subreaper = true
		s.sup = w.add(s.anchor, s.uid, "mcp-tether", line...)
		s.sup.setsid()
	} else {
		s.sup = w.add(parent, s.uid, "mcp-tether", append([]string{"/usr/bin/mcp-tether", "run", "--"}, command...)...)
	}
	s.sup.subreaper = true
	s.server = w.add(s.sup, s.uid, "node", command...)
	s.server.PGRP = s.server.PID
	s.server.process.Mark, s.server.Gateway = s.id, proc.GlobalID{ID: gateway.ID, Host: here}.String()
	s.server.Keep, s.server.Keeps, s.server.kept = false, false, false
	if w.chance(15) {
		s.pattern, s.server.Keeps = "chrome*", true
	}
	s.server.role = "server of " + s.id
	s.members = append(s.members, s.server)
	w.grow(s)
	for _, m := range s.members {
		m.kept = m.kept || s.pattern != "" && (m.Comm == "chrome" || m.parent != nil && m.parent.kept && !m.parent.gone && m.parent.role == m.role)
	}
	w.load(s)
	w.record(s)
	return s
}

// grow lets the server start helpers of all kinds.
func (w *world) grow(s *wrapped) {
	for range w.IntN(6) {
		h := w.add(pick(w, s.members...), s.uid, pick(w, "chrome", "node", "sh", "helper"), "helper", fmt.Sprint(w.IntN(9)))
		h.role = "helper of " + s.id
		if w.chance(40) {
			h.setsid()
		}
		if w.chance(25) {
			h.clearEnv()
		}
		if w.chance(8) {
			h.Keep, h.kept = true, true
		}
		if w.chance(10) && s.uid == 0 {
			h.UID = 33
		}
		if w.chance(20) { // double fork
			twin := w.add(h, h.UID, h.Comm, h.Args...)
			twin.role = h.role
			s.members = append(s.members, twin)
			w.end(h)
			continue
		}
		s.members = append(s.members, h)
	}
}

// record gives a session its record and its leaf, or not.
func (w *world) record(s *wrapped) {
	if w.chance(60) {
		s.leaf = &cgroupLeaf{Dir: "/sys/fs/cgroup/x/mcp-tether-" + s.id, ID: s.id, UID: s.uid}
	}
	if w.chance(15) {
		return
	}
	s.rec = &storedSession{Stored: inDirOf(s.uid)}
	s.rec.Held = true
	s.rec.Record = session.Record{
		Version: session.Version, ID: s.id, Host: here, UID: s.uid, State: session.StateRunning,
		Processes: session.Processes{Gateway: s.gateway.ID, Supervisor: s.sup.ID, Server: s.server.ID}, Shown: session.Shown{Args: s.server.Args},
	}
	if s.anchor != nil {
		s.rec.Anchor = s.anchor.ID
	}
	if s.leaf != nil {
		s.rec.Cgroup = s.leaf.Dir
	}
	s.rec.At, s.rec.Engine = w.engine, w.engine.URL
	if w.chance(5) {
		s.rec.At, s.rec.Engine = w.deaf, w.deaf.URL
	}
	if s.pattern != "" {
		s.rec.Keep = []string{s.pattern}
	}
}

// settle writes what is on disk and in the cgroup once the history is over.
func (w *world) settle(s *wrapped) {
	if s.rec != nil {
		if !s.rec.EngineUsed {
			s.rec.At = nil
		}
		w.h.Sessions = append(w.h.Sessions, *s.rec)
	}
	if s.leaf == nil {
		return
	}
	for _, m := range s.members {
		if !m.gone {
			s.leaf.PIDs = append(s.leaf.PIDs, m.PID)
		}
	}
	w.h.Leaves = append(w.h.Leaves, *s.leaf)
}

// commands are the servers that the gateways are configured with.
var commands = [][]string{
	{"npx", "-y", "@scope/server-x"},
	{"/opt/fs-server", "--root", "/srv"},
	{"uvx", "mcp-server-git"},
}

func modelRules() Rules {
	var all []clients.Server
	for i, c := range commands {
		all = append(all, clients.Server{Name: fmt.Sprint("s", i), Args: slices.Clone(c), UID: clients.AnyUser})
	}
	all = append(all, clients.Server{Name: "boxed", Args: []string{"docker", "run", "-i", "--rm", boxed}, UID: clients.AnyUser})
	m := clients.NewMatcher(all, nil)
	return Rules{Match: m.Match, SurplusOver: 8}
}
