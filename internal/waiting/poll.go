//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where the descriptors are in what is polled. The anchor has signals and parent, and its supervisor in place of itself.
const (
	onSignal = iota
	onParent
	onGateway
	onAnchor
	onStdin
	onStdout
	onClient
	polledFDs
)

// lookPause is how often to ask for a parent without a pidfd, or for descriptors that cannot be polled together.
const lookPause = 250 * millisecond

// polled is what a process waits for.
type polled [polledFDs]unix.PollFd

// clear waits for nothing.
func (w *polled) clear() {
	for n := range w {
		w.add(n, -1, 0)
	}
}

// add waits for events on a descriptor, or for none where that is negative.
func (w *polled) add(n, fd int, events int16) {
	w[n] = unix.PollFd{Fd: int32(max(fd, -1)), Events: events}
}

// wait waits until something has happened, or a time has come; 0 is never.
func (w *polled) wait(due int) {
	limit := -1
	if due != 0 {
		limit = max(due-now(), 0)
	}
	n := poll(&w[0], polledFDs, limit)
	if n >= 0 {
		return
	}
	for i := range w {
		w[i].Revents = 0
		switch {
		case n != -int(unix.EINVAL):
		case i == onSignal: // RLIMIT_NOFILE is lower than what is polled: then one after the other.
			poll(&w[i], 1, lookPause)
		default:
			poll(&w[i], 1, 0)
		}
	}
}

// poll is ppoll(2) with a limit in nanoseconds; negative is none.
func poll(first *unix.PollFd, n uintptr, limit int) int {
	if limit < 0 {
		return call(unix.SYS_PPOLL, address(first), n, 0, 0)
	}
	left := unix.Timespec{Sec: int64(limit / second), Nsec: int64(limit % second)}
	return call(unix.SYS_PPOLL, address(first), n, address(&left), 0)
}

// fired reports, once, that something has happened to a descriptor. One that is not open tells nothing.
func (w *polled) fired(n int) bool {
	f := &w[n]
	if f.Fd < 0 || f.Revents == 0 {
		return false
	}
	f.Fd = -1
	return f.Revents&unix.POLLNVAL == 0
}

// fewSignals is how many signals are taken in a turn: a flood is not to hide what else has happened.
const fewSignals = 64

// fromKernel is SI_KERNEL (sigaction(2)): no process has sent the signal.
const fromKernel = 0x80

// arrived is a signal that has arrived.
type arrived struct{ unix.SignalfdSiginfo }

// take takes the next signal that has arrived, and reports whether there was one.
func (p *Page) take(s *arrived) bool {
	const size = int(unsafe.Sizeof(*s))
	return call(unix.SYS_READ, uintptr(p.FD.Signals), address(s), uintptr(size)) == size
}

func (s *arrived) signal() unix.Signal { return unix.Signal(s.Signo) }

// passes reports whether the signal is for the next process as well. From a terminal it has reached that process already. What we
// have brought about ourselves is not: our own limit of processor time, and our own writes.
func (p *Page) passes(s *arrived) bool {
	if s.Code == fromKernel {
		return !p.Terminal && s.signal() != unix.SIGXCPU
	}
	return int(s.Pid) != getpid()
}

// ends reports whether a signal ends a session.
func ends(sig unix.Signal) bool {
	return sig >= unix.SIGHUP && sig <= unix.SIGQUIT || sig == unix.SIGTERM
}

// resume continues a child that is stopped, unless a person may have stopped it.
func (p *Page) resume(pid int) {
	var info [16]uint64 // siginfo_t: 0 where no child has stopped
	if pid <= 0 || p.Terminal {
		return
	}
	if call(unix.SYS_WAITID, unix.P_PID, uintptr(pid), address(&info), unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, 0) == 0 && info[0] != 0 {
		tell(pid, unix.SIGCONT)
	}
}

// reap waits for one child that has ended, and returns its pid, 0 or less for none, and its wait status. The server's is kept.
func (p *Page) reap() (pid, status int) {
	var ws uint32
	pid = call(unix.SYS_WAIT4, ^uintptr(0), address(&ws), unix.WNOHANG|unix.WALL, 0)
	if status = int(ws); pid > 0 && pid == p.server {
		p.status, p.reaped = status, true
	}
	return pid, status
}

// NoteEnd notes that the session is to end: the anchor gives the supervisor its time from now on.
func (p *Page) NoteEnd() {
	if p.asked == 0 {
		p.asked = now()
		tell(p.Pid.Anchor, unix.SIGCHLD)
	}
}
