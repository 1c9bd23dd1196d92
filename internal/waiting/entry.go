//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// early is written before the runtime starts, and only read by it. It is one variable, so that it takes one page, and has no pointer:
// the memory is not the runtime's.
var early struct {
	stack    uintptr // where the kernel has left command line and environment; atExec writes it
	page     uintptr
	role     Role
	happened Event
	// found is what the runtime changes of what a process inherits.
	found Inherited
}

// atExec is the entry point of the linked binary, which the flag -E of the linker names. It calls begin.
func atExec()

// No Go code calls them.
var _, _ = atExec, begin

// enoughMemory is what the runtime reserves when it starts, in bytes, and some more.
const enoughMemory = 0x30000000

// begin is what atExec calls. The runtime starts when it returns.
func begin() {
	remember()
	session, front := isSession()
	if !session {
		return
	}
	p := mapPage()
	if front && !p.Terminal {
		for !p.forkFront() {
			p.watch()
			p.waitAsleep()
		}
		return
	}
	call(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1)
	s := mustFork(0)
	if s == 0 {
		if ev := p.supervise(); ev.Kind != 0 {
			if !p.makeRoom(false) {
				p.giveUp()
			}
			jump(Supervisor, ev)
		}
		return
	}
	for p.Pid.Supervisor = s; ; p.Pid.Supervisor = s {
		p.closeUnneeded()
		p.watch()
		// A runtime that gets no thread aborts: then the supervisor has exited, and was not killed.
		if !p.makeRoom(p.fate&0x7f == 0) {
			p.giveUp()
		}
		if s = p.forkRecovery(); s == 0 {
			dieWith(p.Pid.Anchor)
			jump(Recovery, Event{})
			return
		}
		if s < 0 {
			p.makeRoom(true)
			p.giveUp()
		}
	}
}

// mapPage maps the page, and notes who has started this process.
func mapPage() *Page {
	call(unix.SYS_PRCTL, unix.PR_SET_NAME, textAddress("mcp-tether\x00")) // a front has executed /proc/self/exe
	m := call(unix.SYS_MMAP, 0, unsafe.Sizeof(Page{}), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	if m < 0 && m > -4096 {
		fail("mcp-tether: no memory to start\n")
	}
	early.page = uintptr(m)
	p := thePage()
	p.noteInherited()
	p.fate = int(unix.SIGKILL)
	p.FD = Descriptors{Parent: -1, Gateway: -1, Anchor: -1, Signals: -1, Lock: -1, Leaf: -1, Kill: -1, Listener: -1, Kept: -1, History: -1}
	p.Pid.Anchor, p.Pid.Parent = getpid(), getppid()
	if p.Pid.Parent > 0 {
		p.FD.Parent = openPidfd(p.Pid.Parent)
		if p.FD.Parent == -int(unix.ENOSYS) {
			fail("mcp-tether: the kernel has no pidfds (Linux 5.4): nothing was started\n")
		}
		if getppid() != p.Pid.Parent {
			fail("mcp-tether: the gateway ended while its session started: nothing was started\n")
		}
	}
	if p.FD.Signals = p.openSignals(); p.FD.Signals < 0 {
		fail("mcp-tether: no descriptor to start with\n")
	}
	return p
}

func thePage() *Page { return *(**Page)(unsafe.Pointer(&early.page)) }

// remember notes what the runtime is about to change.
func remember() {
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, address(&early.found.Mask), sigSetSize)
	for sig := uintptr(1); sig <= 64; sig++ {
		var action [4]uintptr
		if call(unix.SYS_RT_SIGACTION, sig, 0, address(&action), sigSetSize) == 0 && action[0] == ignoreAction {
			early.found.Ignored |= 1 << (sig - 1)
		}
	}
	var files unix.Rlimit
	call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, address(&files))
	early.found.Files, early.found.MostFiles = files.Cur, files.Max
}

// noteInherited notes what the anchor has inherited and blocks all signals.
func (p *Page) noteInherited() {
	var memory unix.Rlimit
	if call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, 0, address(&memory)) == 0 && memory.Cur < enoughMemory {
		fail("mcp-tether: the limit of address space is too small to start: raise it, as by ulimit -v 1048576\n")
	}
	for fd := range p.closed {
		if p.closed[fd] = call(unix.SYS_FCNTL, uintptr(fd), unix.F_GETFD) < 0; p.closed[fd] {
			openNull() // It takes the number, which none of ours may have: closeUnneeded would close that.
		}
	}
	p.ignored = early.found.Ignored & (1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1))
	group := call(unix.SYS_GETPGID, 0)
	p.leads = group == getpid()
	// Standard input may be the terminal, and we in its foreground: a person started us there.
	var foreground int32
	p.Terminal = call(unix.SYS_IOCTL, 0, unix.TIOCGPGRP, address(&foreground)) == 0 && int(foreground) == group
	p.Childless = call(unix.SYS_WAITID, unix.P_ALL, 0, 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, 0) == -int(unix.ECHILD)
	p.mask = setMask(p.blocked())
	// A parent that ignores SIGCHLD has no zombies, and so would we: no exit code, and no event.
	if p.childrenIgnored = early.found.Ignored>>(unix.SIGCHLD-1)&1 != 0; p.childrenIgnored {
		setAction(unix.SIGCHLD, defaultAction)
	}
}

// blocked are the signals that are blocked while no runtime is there.
func (p *Page) blocked() uint64 {
	all := ^p.ignored
	if p.Terminal {
		all &^= 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	}
	return all
}

// openSignals makes a descriptor for all signals that are blocked.
func (p *Page) openSignals() int {
	all := p.blocked()
	return call(unix.SYS_SIGNALFD4, ^uintptr(0), address(&all), sigSetSize, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
}

// jump prepares for the runtime, which starts when the caller returns. The runtime unblocks the signals that end before it
// catches them: until then they are ignored. All others stay blocked.
func jump(role Role, ev Event) {
	for sig := unix.SIGHUP; sig <= unix.SIGTERM; sig++ {
		if ends(sig) || sig == unix.SIGABRT {
			setAction(sig, ignoreAction)
		}
	}
	early.role, early.happened = role, ev
}
