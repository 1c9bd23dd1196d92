//go:build amd64 || arm64

package waiting

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawn forks and executes the server, in its leaf if it has one.
func (p *Page) spawn(w *polled) Event {
	pid := -1
	if p.FD.Leaf >= 0 {
		// struct clone_args, version 2 (clone(2)): flags, exit_signal and cgroup.
		args := [11]uint64{0: unix.CLONE_INTO_CGROUP, 4: uint64(unix.SIGCHLD), 10: uint64(p.FD.Leaf)}
		if pid = call(unix.SYS_CLONE3, address(&args), unsafe.Sizeof(args)); pid < 0 {
			p.unmoved = -pid
		}
	}
	if pid < 0 && !p.mustMove {
		pid = fork(0)
	}
	if pid == 0 {
		p.becomeServer()
	}
	if pid < 0 {
		p.errno = -pid
		return Event{Kind: ByExec}
	}
	p.server = pid
	p.spawned = 1
	call(unix.SYS_FUTEX, address(&p.spawned), futexWake, 1, 0, 0, 0)
	w.add(onGateway, p.FD.Gateway, unix.POLLIN)
	w.addStreams(p, 0)
	w.add(onClient, p.FD.Listener, unix.POLLIN)
	return Event{}
}

// addStreams waits for the ends of the client's streams, and for more on standard input.
func (w *polled) addStreams(p *Page, more int16) {
	if !p.closed[0] {
		w.add(onStdin, 0, more|unix.POLLRDHUP)
	}
	if !p.closed[1] {
		w.add(onStdout, 1, 0)
	}
}

// futexWake is FUTEX_WAKE (futex(2)).
const futexWake = 1

// becomeServer is the server before its program: a copy of the supervisor. It never returns. Should the supervisor be killed, the
// kernel kills the server.
func (p *Page) becomeServer() {
	dieWith(p.Pid.Supervisor)
	if !p.Terminal {
		p.separate()
	}
	p.group = call(unix.SYS_GETPGID, 0)
	for fd, closed := range p.closed { // the starter's runtime has opened /dev/null
		if closed {
			closeFD(fd)
		}
	}
	if p.childrenIgnored {
		setAction(unix.SIGCHLD, ignoreAction)
	}
	p.editEnvironment()
	setMask(p.mask)
	file, args := address(&p.path), wordsAt(early.stack, p.words+2)[p.words:]
	errno := execute(file, address(&args[1]))
	if errno == int(unix.ENOEXEC) {
		// A script without "#!": execvp(3), which the gateway would have used, hands it to the shell.
		args[0], args[1] = textAddress("/bin/sh\x00"), file
		errno = execute(args[0], address(&args[0]))
	}
	p.errno = errno
	exit(127)
}

// separate puts the server into a process group of its own. It leads that only if the gateway has made the anchor lead one: what
// setsid(1) does, and "kill -- -$$", depends on it. Otherwise the leader is a child that has exited at once, without a signal.
func (p *Page) separate() {
	leader := -1
	if !p.leads {
		leader = call(unix.SYS_CLONE, 0)
	}
	if leader == 0 {
		call(unix.SYS_SETPGID, 0, 0)
		exit(0)
	}
	if leader < 0 {
		call(unix.SYS_SETPGID, 0, 0)
		return
	}
	// Dead, it leads the group until it is waited for.
	call(unix.SYS_WAITID, unix.P_PID, uintptr(leader), 0, unix.WEXITED|unix.WNOWAIT|unix.WALL, 0)
	if call(unix.SYS_SETPGID, 0, uintptr(leader)) < 0 {
		call(unix.SYS_SETPGID, 0, 0)
	}
	call(unix.SYS_WAIT4, uintptr(leader), 0, unix.WALL, 0)
}

// editEnvironment takes variables from the list that the kernel has made, and adds others.
func (p *Page) editEnvironment() {
	all := environment()
	list := all[:0]
	for _, variable := range all {
		if !p.drops(textAt(variable)) {
			list = append(list, variable)
		}
	}
	for texts := p.add[:]; texts[0] != 0; texts = after(texts) {
		list = append(list, address(&texts[0]))
	}
	_ = append(list, 0)
}

// drops reports whether the server does not get a variable.
func (p *Page) drops(variable string) bool {
	for texts := p.drop[:]; texts[0] != 0; texts = after(texts) {
		if strings.HasPrefix(variable, textAt(address(&texts[0]))) {
			return true
		}
	}
	return false
}
