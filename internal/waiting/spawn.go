//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawn forks and executes the server, in its leaf if it has one.
func (p *Page) spawn(at *room) (why, what uintptr) {
	pid := int64(-1)
	if p.leafFD >= 0 {
		p.clone.flags, p.clone.exitSignal, p.clone.cgroup = unix.CLONE_INTO_CGROUP, uint64(unix.SIGCHLD), uint64(p.leafFD)
		if pid = call(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&p.clone)), unsafe.Sizeof(p.clone), 0, 0, 0, 0); pid < 0 {
			p.unmoved = -pid
		}
	}
	if pid < 0 && p.mustMove == 0 {
		pid = call(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if pid == 0 {
		p.execute()
	}
	if pid < 0 {
		p.errno = -pid
		return uintptr(ByExec), 0
	}
	p.server = pid
	p.spawned = 1
	call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.spawned)), futexWake, 1, 0, 0, 0)
	at.poll(onGateway, p.gatewayFD, unix.POLLIN)
	if p.closed&1 == 0 {
		at.poll(onStdin, 0, unix.POLLRDHUP)
	}
	if p.closed&2 == 0 {
		at.poll(onStdout, 1, 0)
	}
	at.poll(onClient, p.listenFD, unix.POLLIN)
	return 0, 0
}

// futexWake is FUTEX_WAKE (futex(2)).
const futexWake = 1

// execute is the server before its program: a copy of the supervisor. It never returns. Should the supervisor be killed, the
// kernel kills the server.
func (p *Page) execute() {
	dieWith(p.supervisor)
	if p.terminal == 0 {
		p.separate()
	}
	p.group = call(unix.SYS_GETPGID, 0, 0, 0, 0, 0, 0)
	for fd := uintptr(0); fd < 3; fd++ { // the starter's runtime has opened /dev/null
		if p.closed>>fd&1 != 0 {
			call(unix.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
		}
	}
	if p.childrenIgnored != 0 {
		p.setAction(uintptr(unix.SIGCHLD), ignoreAction)
	}
	p.editEnvironment()
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.mask)), 0, sigSetSize, 0, 0)
	path, args := uintptr(unsafe.Pointer(&p.path)), initialStack+wordSize*(1+uintptr(p.words))
	errno := -call(unix.SYS_EXECVE, path, args, environment(), 0, 0, 0)
	if errno == int64(unix.ENOEXEC) {
		// A script without "#!": execvp(3), which the gateway would have used, hands it to the shell.
		shell := "/bin/sh\x00"
		at := uintptr(unsafe.Pointer(unsafe.StringData(shell)))
		setWord(args, path)
		setWord(args-wordSize, at)
		errno = -call(unix.SYS_EXECVE, at, args-wordSize, environment(), 0, 0, 0)
	}
	p.errno = errno
	exit(127)
}

// separate puts the server into a process group of its own. It leads that only if the gateway has made the anchor lead one: what
// setsid(1) does, and "kill -- -$$", depends on it. Otherwise the leader is a child that has exited at once, without a signal.
func (p *Page) separate() {
	leader := int64(-1)
	if p.leads == 0 {
		leader = call(unix.SYS_CLONE, 0, 0, 0, 0, 0, 0)
	}
	if leader == 0 {
		call(unix.SYS_SETPGID, 0, 0, 0, 0, 0, 0)
		exit(0)
	}
	if leader < 0 {
		call(unix.SYS_SETPGID, 0, 0, 0, 0, 0, 0)
		return
	}
	// Dead, it leads the group until it is waited for.
	call(unix.SYS_WAITID, unix.P_PID, uintptr(leader), 0, unix.WEXITED|unix.WNOWAIT|unix.WALL, 0, 0)
	if call(unix.SYS_SETPGID, 0, uintptr(leader), 0, 0, 0, 0) < 0 {
		call(unix.SYS_SETPGID, 0, 0, 0, 0, 0, 0)
	}
	call(unix.SYS_WAIT4, uintptr(leader), 0, unix.WALL, 0, 0, 0)
}

// editEnvironment takes variables from the list that the kernel has made, and adds others. Behind the list is the auxiliary
// vector (getauxval(3)), which is longer than what is added, and which a process that is about to execute does not need.
func (p *Page) editEnvironment() {
	to := environment()
	for from := to; word(from) != 0; from += wordSize {
		if !p.drops(word(from)) {
			setWord(to, word(from))
			to += wordSize
		}
	}
	for text := uintptr(unsafe.Pointer(&p.add)); char(text) != 0; text = after(text) {
		setWord(to, text)
		to += wordSize
	}
	setWord(to, 0)
}

// drops reports whether the server does not get a variable.
func (p *Page) drops(variable uintptr) bool {
	for text := uintptr(unsafe.Pointer(&p.drop)); char(text) != 0; text = after(text) {
		a, b := text, variable
		for char(a) != 0 && char(a) == char(b) {
			a, b = a+1, b+1
		}
		if char(a) == 0 {
			return true
		}
	}
	return false
}

// after is where the next text begins.
func after(text uintptr) uintptr {
	for char(text) != 0 {
		text++
	}
	return text + 1
}
