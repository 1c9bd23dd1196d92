package reap

import (
	"path"
	"strings"
	"time"

	"mcp-tether/container"
	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// Host is what a pass has read.
type host struct {
	proc.Host
	// UID is the user of the pass; root may look after everybody.
	UID int
	// Self is the reaping process.
	Self int
	// Since is when the pass began, in clock ticks: whoever started later is a newborn and spared. Began is the same by
	// the wall clock, for what engines and labels say.
	Since    uint64
	Began    time.Time
	Procs    []process
	Sessions []storedSession
	Leaves   []cgroupLeaf
	Engines  []*knownEngine
	// Machine is container.MachineID.
	Machine string
	// Lives tells of an identity whether it lives: by the table, and by asking the kernel for what the table hides.
	Lives func(proc.ID) proc.Life
	// Stdin and Inside are asked only about candidates: the far end of standard input, and whether the process is in
	// the pid namespace of the pass.
	Stdin  func(pid int) proc.Stdin
	Inside func(pid int) bool
	// Holder names a process that holds the far end, 0 if none can be seen.
	Holder func(proc.Stdin) int
}

// booted is when this boot began, by the wall clock.
func (h *host) booted() time.Time { return h.Began.Add(-time.Duration(h.Since) * proc.Tick) }

// Process is one process with the marks in its environment.
type process struct {
	proc.Process
	// Session and Gateway are the marks; Session is "" when there is none or it cannot be read.
	Session string
	Gateway string
	// Keep is the mark of a process that is meant to stay.
	Keep bool
}

// Session is one record with the state of its lease.
type storedSession struct {
	session.Record
	// Dir is where it lies, Owner whose directory that is.
	Dir   string
	Owner int
	// Held says that a supervisor holds the lease; Lease is false when that could not be found out.
	Held, Lease bool
	// Of a session that nobody holds: what it did to its engine, and where that is, nil for nowhere. Torn says why some of
	// it cannot be read.
	Ledger container.Ledger
	At     *knownEngine
	Torn   error
}

// Leaf is a cgroup of ours.
type cgroupLeaf struct {
	Dir, ID string
	UID     int
	// PIDs are its members, those of cgroups below it included.
	PIDs []int
}

// index holds the tables that the rules look things up in.
type index struct {
	h        *host
	byPID    map[int]*process
	children map[int][]*process
	// supervised are the session ids of living supervisors.
	supervised map[string]bool
	taken      map[proc.ID]bool
	// looked are the ids of containers that are in a finding already.
	looked map[string]bool
	// suspects are the containers that the rules came across and could not prove.
	suspects  []Finding
	ancestors map[int]bool // of the pass itself
	// kept are the processes with the mark to be kept, and all below them.
	kept map[int]bool
}

func newIndex(h *host) *index {
	x := &index{
		h: h, byPID: map[int]*process{}, children: map[int][]*process{}, supervised: map[string]bool{},
		taken: map[proc.ID]bool{}, looked: map[string]bool{}, ancestors: map[int]bool{}, kept: map[int]bool{},
	}
	for i := range h.Procs {
		x.byPID[h.Procs[i].PID] = &h.Procs[i]
	}
	for i := range h.Procs {
		p := &h.Procs[i]
		if up := x.parent(p); up != nil {
			x.children[up.PID] = append(x.children[up.PID], p)
		}
		if id := supervisedID(p.Args); id != "" && !p.Dead() {
			x.supervised[id] = true
		}
	}
	for _, s := range h.Sessions {
		// Somebody else's lock says nothing about root's session: its id can be read in command lines.
		if (s.Held || !s.Lease) && (s.Owner == 0 || s.Owner == h.UID || !x.rootOwned(s.ID)) {
			x.supervised[s.ID] = true
		}
	}
	for p := x.byPID[h.Self]; p != nil && !x.ancestors[p.PID]; p = x.parent(p) {
		x.ancestors[p.PID] = true
	}
	for i := range h.Procs {
		if h.Procs[i].Keep {
			x.keepTree(&h.Procs[i], x.kept)
		}
	}
	return x
}

// parent is the parent of a process, nil when it is not in the table. Nobody is older than the parent: such a one has
// taken the pid over while the table was read.
func (x *index) parent(p *process) *process {
	up := x.byPID[p.PPID]
	if up == nil || up.Start > p.Start {
		return nil
	}
	return up
}

// maxClimb bounds the way up to the ancestors, should a table hold a circle.
const maxClimb = 256

// keepTree adds a process and all below it to the kept.
func (x *index) keepTree(p *process, kept map[int]bool) {
	if kept[p.PID] {
		return
	}
	kept[p.PID] = true
	for _, c := range x.children[p.PID] {
		x.keepTree(c, kept)
	}
}

// rootOwned reports whether a leaf or a mark of root names the session.
func (x *index) rootOwned(id string) bool {
	for i := range x.h.Leaves {
		if x.h.Leaves[i].ID == id && x.h.Leaves[i].UID == 0 {
			return true
		}
	}
	for i := range x.h.Procs {
		if x.h.Procs[i].Session == id && x.h.Procs[i].UID == 0 {
			return true
		}
	}
	return false
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
func isTether(p *process) bool {
	if p.Dead() || len(p.Args) < 2 {
		return false
	}
	return p.Args[1] == "__supervise" || p.Args[1] == "run" && (p.Comm == "mcp-tether" || path.Base(p.Args[0]) == "mcp-tether")
}

// tethered reports whether a wrapper of ours is among the ancestors of p: then its session lives and looks after it.
func (x *index) tethered(p *process) bool {
	for n := 0; p != nil && n < maxClimb; n++ {
		if isTether(p) {
			return true
		}
		p = x.parent(p)
	}
	return false
}

// rooted reports whether all ancestors of p can be seen, up to init. Where one cannot, it may be a supervisor.
func (x *index) rooted(p *process) bool {
	for range maxClimb {
		if p.PPID == 1 || p.PID == 1 {
			return true
		}
		if p = x.parent(p); p == nil {
			return false
		}
	}
	return false
}

// mine reports whether the pass may touch processes of a user.
func (x *index) mine(uid int) bool { return x.h.UID == 0 || x.h.UID == uid }

// spared says of a process that it is never touched: dead, a newborn, init, the pass itself or who started it, or meant
// to stay.
func (x *index) spared(p *process) bool { return x.untouchable(p) || p.Start >= x.h.Since }

// untouchable is spared without the newborns: below or beside a proven member they belong to it.
func (x *index) untouchable(p *process) bool {
	return p.Dead() || p.PID <= 1 || x.ancestors[p.PID] || x.kept[p.PID] || x.taken[p.ID]
}

// scope says who belongs to a tree.
type scope struct {
	// uid is the only user whose processes count; -1 for any.
	uid int
	// sessions follows members that lead a session of their own to everybody in it.
	sessions bool
	// newborns counts those who began after the pass, too.
	newborns bool
	// keep are the patterns of processes to leave alone, with all below them.
	keep []string
}

// tree collects the processes below (and with) the given ones, without the spared and without trees that belong to
// another living session.
func (x *index) tree(tops []*process, sc scope) []*process {
	var (
		out   []*process
		seen  = map[int]bool{}
		kept  = map[int]bool{}
		queue = append([]*process(nil), tops...)
	)
	if len(sc.keep) > 0 {
		for i := range x.h.Procs {
			if p := &x.h.Procs[i]; teardown.KeptBy(sc.keep, p.Comm, p.Args) {
				x.keepTree(p, kept)
			}
		}
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if kept[p.PID] {
			// Kept for every other rule of this pass as well.
			x.keepTree(p, x.kept)
		}
		// A wrapper further down has lost its gateway with this session, and ends its own itself.
		if seen[p.PID] || x.kept[p.PID] || isTether(p) {
			continue
		}
		seen[p.PID] = true
		if !x.untouchable(p) && (sc.newborns || p.Start < x.h.Since) && (sc.uid < 0 || p.UID == sc.uid) {
			out = append(out, p)
		}
		queue = append(queue, x.children[p.PID]...)
		if sc.sessions && p.Stat.Session == p.PID {
			queue = append(queue, x.inSession(p)...)
		}
	}
	return out
}

func (x *index) inSession(leader *process) []*process {
	var out []*process
	for i := range x.h.Procs {
		if p := &x.h.Procs[i]; p.Stat.Session == leader.PID && p.Start >= leader.Start {
			out = append(out, p)
		}
	}
	return out
}

func (x *index) take(members []*process) []proc.ID {
	ids := make([]proc.ID, 0, len(members))
	for _, m := range members {
		x.taken[m.ID] = true
		ids = append(ids, m.ID)
	}
	return ids
}
