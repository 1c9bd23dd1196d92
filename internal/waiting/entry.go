//go:build amd64 || arm64

package waiting

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Written before the runtime starts, and only read by it. They are numbers, because a pointer would need a write barrier.
var initialStack, pageAddress, thisRole, happened, detail uintptr

// What the runtime changes of what a process inherits: sets of signals with bit n-1 for signal n, and RLIMIT_NOFILE.
var blockedBefore, ignoredBefore, filesBefore, mostFilesBefore uint64

// atExec is the entry point of the linked binary, which the flag -E of the linker names. It calls begin.
func atExec()

// No Go code calls them.
var _, _ = atExec, begin

const (
	// wordSize is the size of an address, in bytes.
	wordSize = 8
	// sigSetSize is that of the kernel's signal set (rt_sigprocmask(2)).
	sigSetSize = 8
	// The handlers of sigaction(2), which begin struct kernel_sigaction.
	defaultAction, ignoreAction = 0, 1
	// enoughMemory is what the runtime reserves when it starts, in bytes, and some more.
	enoughMemory = 0x30000000
)

// call makes a system call. The result is negative for an error: -errno.
func call(number, a, b, c, d, e, f uintptr) int64 {
	r, _, errno := syscall.RawSyscall6(number, a, b, c, d, e, f)
	if errno != 0 {
		return -int64(errno)
	}
	return int64(r)
}

func word(at uintptr) uintptr { return **(**uintptr)(unsafe.Pointer(&at)) }

func setWord(at, to uintptr) { **(**uintptr)(unsafe.Pointer(&at)) = to }

func char(at uintptr) byte { return **(**byte)(unsafe.Pointer(&at)) }

func setChar(at uintptr, to byte) { **(**byte)(unsafe.Pointer(&at)) = to }

// fail says why nothing was started, and ends the process.
func fail(why string) {
	call(unix.SYS_WRITE, 2, uintptr(unsafe.Pointer(unsafe.StringData(why))), uintptr(len(why)), 0, 0, 0)
	call(unix.SYS_EXIT_GROUP, ExitFailure, 0, 0, 0, 0, 0)
}

// begin is what atExec calls. The runtime starts when it returns.
func begin() {
	remember()
	session, front := isSession()
	if !session {
		return
	}
	p := mapPage()
	if front && p.terminal == 0 {
		for !p.forkFront() {
			p.watch()
			p.waitAsleep()
		}
		return
	}
	call(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
	s := call(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if s < 0 {
		fail("mcp-tether: no process can be started\n")
	}
	if s == 0 {
		if why, what := p.supervise(); why != 0 {
			if !p.makeRoom(&p.supervisorRoom, false) {
				p.giveUp()
			}
			p.jump(Supervisor, why, what)
		}
		return
	}
	for p.supervisor = s; ; p.supervisor = s {
		p.closeUnneeded()
		p.watch()
		// A runtime that gets no thread aborts: then the supervisor has exited, and was not killed.
		if !p.makeRoom(&p.anchorRoom, p.fate&0x7f == 0) {
			p.giveUp()
		}
		if s = p.forkRecovery(); s == 0 {
			dieWith(p.anchor)
			p.jump(Recovery, 0, 0)
			return
		}
		if s < 0 {
			p.makeRoom(&p.anchorRoom, true)
			p.giveUp()
		}
	}
}

// mapPage maps the page, and notes who has started this process.
func mapPage() *Page {
	name := "mcp-tether\x00" // a front has executed /proc/self/exe
	call(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(unsafe.StringData(name))), 0, 0, 0, 0)
	m := call(unix.SYS_MMAP, 0, unsafe.Sizeof(Page{}), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	if m < 0 && m > -4096 {
		fail("mcp-tether: no memory to start\n")
	}
	pageAddress = uintptr(m)
	p := *(**Page)(unsafe.Pointer(&pageAddress))
	p.noteInherited()
	p.fate = int64(unix.SIGKILL)
	p.anchor, p.supervisor = call(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0), 0
	p.parentFD, p.gatewayFD, p.anchorFD, p.signalFD = -1, -1, -1, -1
	p.lockFD, p.leafFD, p.killFD, p.listenFD, p.keptFD, p.historyFD = -1, -1, -1, -1, -1, -1
	if p.parent = call(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0); p.parent > 0 {
		p.parentFD = call(unix.SYS_PIDFD_OPEN, uintptr(p.parent), 0, 0, 0, 0, 0)
		if p.parentFD == -int64(unix.ENOSYS) {
			fail("mcp-tether: the kernel has no pidfds (Linux 5.4): nothing was started\n")
		}
		if call(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0) != p.parent {
			fail("mcp-tether: the gateway ended while its session started: nothing was started\n")
		}
	}
	p.signalFD = p.openSignals()
	if p.signalFD < 0 {
		fail("mcp-tether: no descriptor to start with\n")
	}
	return p
}

// remember notes what the runtime is about to change.
func remember() {
	var action [4]uintptr
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(&blockedBefore)), sigSetSize, 0, 0)
	for sig := uintptr(1); sig <= 64; sig++ {
		if call(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&action)), sigSetSize, 0, 0) == 0 && action[0] == ignoreAction {
			ignoredBefore |= 1 << (sig - 1)
		}
	}
	if call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&action)), 0, 0) == 0 {
		filesBefore, mostFilesBefore = uint64(action[0]), uint64(action[1])
	}
}

// noteInherited notes what the anchor has inherited and blocks all signals.
func (p *Page) noteInherited() {
	at := &p.anchorRoom
	where := uintptr(unsafe.Pointer(&at.text))
	if call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, 0, where, 0, 0) == 0 && word(where) < enoughMemory {
		fail("mcp-tether: the limit of address space is too small to start: raise it, as by ulimit -v 1048576\n")
	}
	for fd := uintptr(0); fd < 3; fd++ {
		if call(unix.SYS_FCNTL, fd, unix.F_GETFD, 0, 0, 0, 0) < 0 {
			p.closed |= 1 << fd
		}
	}
	mask := ^uint64(0)
	p.ignored = ignoredBefore & (1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1))
	mask &^= p.ignored
	if call(unix.SYS_GETPGID, 0, 0, 0, 0, 0, 0) == call(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0) {
		p.leads = 1
	}
	if p.onTerminal() {
		p.terminal = 1
		mask &^= 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	}
	at.left.Sec = int64(mask)
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&at.left)), uintptr(unsafe.Pointer(&p.mask)), sigSetSize, 0, 0)
	// A parent that ignores SIGCHLD has no zombies, and so would we: no exit code, and no event.
	if ignoredBefore>>(unix.SIGCHLD-1)&1 != 0 {
		p.childrenIgnored = 1
		p.setAction(uintptr(unix.SIGCHLD), defaultAction)
	}
}

// setAction sets the action for a signal.
func (p *Page) setAction(sig, action uintptr) {
	var a [4]uintptr
	a[0] = action
	call(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&a)), 0, sigSetSize, 0, 0)
}

// onTerminal reports whether standard input is the terminal, and we are in its foreground: a person started us there.
func (p *Page) onTerminal() bool {
	group := uintptr(unsafe.Pointer(&p.anchorRoom.status))
	return call(unix.SYS_IOCTL, 0, unix.TIOCGPGRP, group, 0, 0, 0) == 0 &&
		int64(int32(p.anchorRoom.status)) == call(unix.SYS_GETPGID, 0, 0, 0, 0, 0, 0)
}

// openSignals makes a descriptor for all signals that are blocked.
func (p *Page) openSignals() int64 {
	all := ^uint64(0) &^ p.ignored
	if p.terminal != 0 {
		all &^= 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	}
	p.anchorRoom.left.Sec = int64(all)
	return call(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&p.anchorRoom.left)), sigSetSize, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
}

// jump prepares for the runtime, which starts when the caller returns. The runtime unblocks the signals that end before it
// catches them: until then they are ignored. All others stay blocked.
func (p *Page) jump(role Role, why, what uintptr) {
	for sig := uintptr(1); sig <= uintptr(unix.SIGTERM); sig++ {
		if ends(sig) || sig == uintptr(unix.SIGABRT) {
			p.setAction(sig, ignoreAction)
		}
	}
	thisRole, happened, detail = uintptr(role), why, what
}

// ends reports whether a signal ends a session.
func ends(sig uintptr) bool {
	return sig >= uintptr(unix.SIGHUP) && sig <= uintptr(unix.SIGQUIT) || sig == uintptr(unix.SIGTERM)
}
