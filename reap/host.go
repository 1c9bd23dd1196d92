package reap

import (
	"path"
	"strings"

	"mcp-tether/proc"
	"mcp-tether/session"
)

// Host is what a pass has read.
type Host struct {
	proc.Host
	// UID is the user of the pass; root may look after everybody.
	UID int
	// Self is the reaping process.
	Self int
	// Since is when the pass began, in clock ticks: whoever started later is a newborn and spared.
	Since    uint64
	Procs    []Process
	Sessions []Session
	Leaves   []Leaf
	// Lives tells of an identity whether it lives: by the table, and by asking the kernel for what the table hides.
	Lives func(proc.ID) Life
	// Stdin and Inside are asked only about candidates: the far end of standard input, and whether the process is in
	// the pid namespace of the pass.
	Stdin  func(pid int) proc.Stdin
	Inside func(pid int) bool
	// Holder names a process that holds the far end, 0 if none can be seen.
	Holder func(proc.Stdin) int
}

// Life is the answer of Host.Lives.
type Life uint8

// The answers. Only Dead proves an end.
const (
	Unknown Life = iota
	Alive
	Dead
)

func (l Life) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// Process is one process with the marks in its environment.
type Process struct {
	proc.Process
	// Session and Gateway are the marks; Session is "" when there is none or it cannot be read.
	Session string
	Gateway string
	// Keep is the mark of a process that is meant to stay.
	Keep bool
}

// Session is one record with the state of its lease.
type Session struct {
	session.Record
	// Dir is where it lies, Owner whose directory that is.
	Dir   string
	Owner int
	// Held says that a supervisor holds the lease; Lease is false when that could not be found out.
	Held, Lease bool
}

// Leaf is a cgroup of ours.
type Leaf struct {
	Dir, ID string
	UID     int
	// PIDs are its members, those of cgroups below it included.
	PIDs []int
}

// index holds the tables that the rules look things up in.
type index struct {
	h        *Host
	byPID    map[int]*Process
	children map[int][]*Process
	// supervised are the session ids of living supervisors.
	supervised map[string]bool
	taken      map[proc.ID]bool
	ancestors  map[int]bool // of the pass itself
}

func newIndex(h *Host) *index {
	x := &index{
		h: h, byPID: map[int]*Process{}, children: map[int][]*Process{}, supervised: map[string]bool{},
		taken: map[proc.ID]bool{}, ancestors: map[int]bool{},
	}
	for i := range h.Procs {
		p := &h.Procs[i]
		x.byPID[p.PID] = p
		x.children[p.PPID] = append(x.children[p.PPID], p)
		if id := supervisedID(p.Args); id != "" && !p.Dead() {
			x.supervised[id] = true
		}
	}
	for _, s := range h.Sessions {
		if s.Held || !s.Lease {
			x.supervised[s.ID] = true
		}
	}
	for p := x.byPID[h.Self]; p != nil && !x.ancestors[p.PID]; p = x.byPID[p.PPID] {
		x.ancestors[p.PID] = true
	}
	return x
}

// supervisedID is the session id in a supervisor's command line: "mcp-tether __supervise ID,...".
func supervisedID(args []string) string {
	if len(args) < 3 || args[1] != "__supervise" {
		return ""
	}
	id, _, _ := strings.Cut(args[2], ",")
	return id
}

// isTether reports whether a process is a living wrapper of ours, anchor or supervisor.
func isTether(p *Process) bool {
	if p.Dead() || len(p.Args) < 2 {
		return false
	}
	return p.Args[1] == "__supervise" || p.Args[1] == "run" && path.Base(p.Args[0]) == "mcp-tether"
}

// tethered reports whether a wrapper of ours is among the ancestors of p: then its session lives and looks after it.
func (x *index) tethered(p *Process) bool {
	for seen := 0; p != nil && seen < len(x.byPID); seen++ {
		if isTether(p) {
			return true
		}
		p = x.byPID[p.PPID]
	}
	return false
}

// mine reports whether the pass may touch processes of a user.
func (x *index) mine(uid int) bool { return x.h.UID == 0 || x.h.UID == uid }

// spared says of a process that it is never touched: dead, a newborn, init, the pass itself or who started it, or meant
// to stay.
func (x *index) spared(p *Process) bool {
	return p.Dead() || p.PID <= 1 || p.Start >= x.h.Since || x.ancestors[p.PID] || p.Keep || x.taken[p.ID]
}

// tree collects the processes below (and with) the given ones, of one user (any for -1), without the spared and without
// trees that belong to another living session. With sessions it follows members that lead a session of their own to
// everybody in it.
func (x *index) tree(tops []*Process, uid int, sessions bool) []*Process {
	var (
		out   []*Process
		seen  = map[int]bool{}
		queue = append([]*Process(nil), tops...)
	)
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if seen[p.PID] {
			continue
		}
		seen[p.PID] = true
		// A wrapper further down has lost its gateway with this session, and ends its own itself.
		if p.Keep || isTether(p) {
			continue
		}
		if !x.spared(p) && (uid < 0 || p.UID == uid) {
			out = append(out, p)
		}
		queue = append(queue, x.children[p.PID]...)
		if sessions && p.Stat.Session == p.PID {
			queue = append(queue, x.inSession(p.PID)...)
		}
	}
	return out
}

func (x *index) inSession(sid int) []*Process {
	var out []*Process
	for i := range x.h.Procs {
		if x.h.Procs[i].Stat.Session == sid {
			out = append(out, &x.h.Procs[i])
		}
	}
	return out
}

func (x *index) take(members []*Process) []proc.ID {
	ids := make([]proc.ID, 0, len(members))
	for _, m := range members {
		x.taken[m.ID] = true
		ids = append(ids, m.ID)
	}
	return ids
}
