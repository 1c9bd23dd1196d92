package reap

import (
	"fmt"
	"time"

	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// machine is what a pass has read of the machine that it runs on.
type machine struct {
	proc.Host
	// UID is the user of the pass, whose sessions and processes alone are looked after.
	UID int
	// Self is the reaping process.
	Self int
	// Since is when the pass began, in clock ticks since boot. A process that started later is a newborn and spared. Began
	// is the same by the wall clock, for comparison with engines and labels.
	Since    uint64
	Began    time.Time
	Procs    []process
	Sessions []storedSession
	Leaves   []cgroupLeaf
	Engines  []*knownEngine
	// Blind says that the records cannot be read: which supervisor looks after a session is not known.
	Blind bool
	// Unknown says what could not be read.
	Unknown []string
	// Machine is engine.MachineID.
	Machine string
	questions
}

// questions are asked about single processes, when a rule needs the answer.
type questions struct {
	// Lives asks the kernel whether the process of an identity lives.
	Lives func(proc.ID) proc.Life
	// Memory is the resident memory of a process in bytes, 0 where it cannot be read. It is for people.
	Memory func(pid int) uint64
	// Stdin and Inside are asked about candidates only. Stdin gives the far end of standard input, Inside whether the
	// process is in the pid namespace of the pass.
	Stdin  func(pid int) evidence.Stdin
	Inside func(pid int) bool
	// Reached says by which socket of its own one of some processes can be reached from outside of their tree; "" if none can.
	Reached func(pids, tree []int) string
	// User is the pid of a process of this user that is connected to a socket on which a process listens, and that is not inside
	// of a session; 0 for none.
	User func(pid int, inside []int) int
	// Stdout says whether the standard output of a process goes to a terminal, a file, or a socket of a process out of
	// sight. Otherwise it gives the processes in sight that read the pipe or hold the socket's other end.
	Stdout func(pid int) (elsewhere bool, readers []int)
	// Holder is the pid of a process that holds the far end, 0 if none can be seen.
	Holder func(evidence.Stdin) int
}

// booted is when this boot began, by the wall clock.
func (h *machine) booted() time.Time { return h.Began.Add(-time.Duration(h.Since) * proc.Tick) }

// process is one process with the marks in its environment.
type process struct {
	evidence.Process
	// Mark and Gateway are the marks, "" when there are none or they cannot be read: the session's id, and its gateway.
	Mark    string
	Gateway string
	// Service says that a service manager started the process itself, and so looks after it.
	Service bool
	// Browser is what it is to a browser.
	Browser teardown.Browser
	// Keep says that the process is meant to stay (MCP_TETHER_KEEP).
	Keep bool
	// Keeps says that its session keeps processes by their names (--keep).
	Keeps bool
}

// stuck says that nothing is known of a process.
func (p *process) stuck() string {
	return fmt.Sprintf("pid %d (%s) keeps its readers waiting: it cannot be looked at (what it waits for: /proc/%d/stack, as root)", p.PID, p.Comm, p.PID)
}

// storedSession is a record of the user's, and the engine that the session has used if it is dead.
type storedSession struct {
	session.Stored
	At *knownEngine
}

// cgroupLeaf is a cgroup of ours.
type cgroupLeaf struct {
	Dir, ID string
	UID     int
	// PIDs are its members, with those of the cgroups below it.
	PIDs []int
	// Foreign says that a member is, or may be, in another pid namespace.
	Foreign bool
	// Old says that no session that starts can be about to enter it.
	Old bool
}
