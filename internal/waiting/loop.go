//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	second      = 1_000_000_000
	millisecond = 1_000_000
	// usual is how long a session may take to end that has not said it.
	usual = 30 * second
	// lookPause is how often to ask for a parent without a pidfd.
	lookPause = 250 * millisecond
	// dying is how long a process may take to die of SIGKILL.
	dying = second
)

// now is CLOCK_MONOTONIC in nanoseconds.
func (at *room) now() int64 {
	call(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&at.left)), 0, 0, 0, 0)
	return at.left.Sec*second + at.left.Nsec
}

// wait waits until something has happened, or a time has come; 0 is never.
func (at *room) wait(due int64) {
	limit := uintptr(0)
	if due != 0 {
		left := max(due-at.now(), 0)
		at.left.Sec, at.left.Nsec = left/second, left%second
		limit = uintptr(unsafe.Pointer(&at.left))
	}
	n := call(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&at.polled)), polledFDs, limit, 0, 0, 0)
	if n < 0 {
		at.forgetPoll()
	}
}

// forgetPoll forgets what the last poll said, which has failed.
func (at *room) forgetPoll() {
	for i := range at.polled {
		at.polled[i].revents = 0
	}
}

// fired reports, once, that something has happened to a descriptor. One that is not open tells nothing.
func (at *room) fired(n int) bool {
	f := (*pollFD)(unsafe.Add(unsafe.Pointer(&at.polled), uintptr(n)*unsafe.Sizeof(pollFD{})))
	if f.fd < 0 || f.revents == 0 {
		return false
	}
	f.fd = -1
	return f.revents&unix.POLLNVAL == 0
}

// poll waits for events on a descriptor, or for none where that is negative.
func (at *room) poll(n int, fd int64, events int16) {
	f := (*pollFD)(unsafe.Add(unsafe.Pointer(&at.polled), uintptr(n)*unsafe.Sizeof(pollFD{})))
	f.fd, f.events, f.revents = int32(max(fd, -1)), events, 0
}

// clear waits for nothing.
func (at *room) clear() {
	for n := range polledFDs {
		at.poll(n, -1, 0)
	}
}

// take takes the next signal that has arrived; 0 is none.
func (p *Page) take(at *room) uintptr {
	const size = unsafe.Sizeof(unix.SignalfdSiginfo{})
	if call(unix.SYS_READ, uintptr(p.signalFD), uintptr(unsafe.Pointer(&at.signal)), size, 0, 0, 0) < int64(size) {
		return 0
	}
	return uintptr(at.signal.Signo)
}

// takeNext is take, and takes no more than a few in a turn: a flood is not to hide what else has happened.
func (p *Page) takeNext(at *room, taken int) uintptr {
	if taken >= fewSignals {
		return 0
	}
	return p.take(at)
}

// fewSignals is how many signals are taken in a turn.
const fewSignals = 64

// fromKernel is SI_KERNEL (sigaction(2)): no process has sent the signal.
const fromKernel = 0x80

// passes reports whether the signal that was taken last is for the next process as well. From a terminal it has reached that
// process already. What we have brought about ourselves is not: our own limit of processor time, and our own writes.
func (p *Page) passes(at *room) bool {
	s := &at.signal
	if s.Code == fromKernel {
		return p.terminal == 0 && s.Signo != uint32(unix.SIGXCPU)
	}
	return int64(s.Pid) != call(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
}

// resume continues a child that is stopped, unless a person may have stopped it.
func (p *Page) resume(at *room, pid int64) {
	info := uintptr(unsafe.Pointer(&at.info))
	setWord(info, 0)
	if pid <= 0 || p.terminal != 0 {
		return
	}
	if call(unix.SYS_WAITID, unix.P_PID, uintptr(pid), info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, 0, 0) == 0 && uint32(word(info)) != 0 {
		tell(pid, uintptr(unix.SIGCONT))
	}
}

// reap waits for one child that has ended, and returns its pid; 0 or less is none. The server's status is kept.
func (p *Page) reap(at *room) int64 {
	at.status = 0
	pid := call(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&at.status)), unix.WNOHANG|unix.WALL, 0, 0, 0)
	if pid > 0 && pid == p.server {
		p.status, p.reaped = int64(at.status), 1
	}
	return pid
}

// dieWith has the kernel kill this process when its parent is killed. A parent that is gone already sends nothing.
func dieWith(parent int64) {
	call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	if call(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0) != parent {
		exit(ExitFailure)
	}
}

// exit ends the process.
func exit(code int64) {
	call(unix.SYS_EXIT_GROUP, uintptr(code), 0, 0, 0, 0, 0)
}

// tell signals a process of ours, and tries twice: a transient error must not lose the signal.
func tell(pid int64, sig uintptr) {
	if pid <= 0 { // a whole process group
		return
	}
	if call(unix.SYS_KILL, uintptr(pid), sig, 0, 0, 0, 0) < 0 {
		call(unix.SYS_KILL, uintptr(pid), sig, 0, 0, 0, 0)
	}
}

// noteEnd notes that the session is to end, and tells the anchor.
func (p *Page) noteEnd(at *room) {
	if p.asked == 0 {
		p.asked = at.now()
		tell(p.anchor, uintptr(unix.SIGCHLD))
	}
}

// closeOwn closes what a starter or front that has ended had opened, but for what is kept. A descriptor that the next execve(2) passes
// on was given.
func (p *Page) closeOwn() {
	for fd := int64(3); fd < p.ownBelow; fd++ {
		if !p.keeps(fd) && call(unix.SYS_FCNTL, uintptr(fd), unix.F_GETFD, 0, 0, 0, 0) == unix.FD_CLOEXEC {
			call(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0, 0)
		}
	}
	p.ownBelow = 0
}
