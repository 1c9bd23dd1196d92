//go:build amd64 || arm64

package waiting

import "golang.org/x/sys/unix"

const (
	// usual is how long a session may take to end that has not said it.
	usual = 30 * second
	// dying is how long a process may take to die of SIGKILL.
	dying = second
	// maxTakeovers bounds how often a killed process is replaced.
	maxTakeovers = 8
	lastFD       = 1<<32 - 1
	// fewFDs are closed one by one before Linux 5.9.
	fewFDs = 1024
)

// watch is the anchor. A signal that ends would kill a supervisor whose runtime is starting, or be lost in that moment: it is held
// until the runtime hears it. watch returns when the supervisor has not ended the session, and another process is to end it.
func (p *Page) watch() {
	var w polled
	w.clear()
	w.add(onSignal, p.FD.Signals, unix.POLLIN)
	w.add(onParent, p.FD.Parent, unix.POLLIN)
	w.add(onAnchor, openPidfd(p.Pid.Supervisor), unix.POLLIN)
	due, killed, ended, undelivered := 0, false, false, unix.Signal(0)
	for !ended {
		w.wait(p.nextLook(due))
		ended = p.passSignals(&undelivered)
		if (w.fired(onParent) || p.parentGone()) && p.asked == 0 {
			p.asked = now()
		}
		if w.fired(onAnchor) && !ended && !killed {
			if p.done {
				exit(p.code)
			}
			// It is dead, and cannot be waited for: it is dying, or a tracer holds it.
			killed, due = true, now()+dying
		}
		if due == 0 && p.asked != 0 {
			if due = p.asked + p.longest; p.longest == 0 {
				due = p.asked + usual
			}
		}
		if ended || due == 0 || now() < due {
			continue
		}
		if killed { // in a system call that does not end
			break
		}
		killed, due = true, now()+dying
		tell(p.Pid.Supervisor, unix.SIGKILL)
	}
}

// passSignals passes on what has arrived, and waits for the children that have ended. It reports whether the supervisor has.
// undelivered is a signal that ends which is held back until the supervisor's runtime hears signals.
func (p *Page) passSignals(undelivered *unix.Signal) (ended bool) {
	var s arrived
	for n := 0; n < fewSignals && p.take(&s); n++ {
		sig := s.signal()
		switch {
		case sig == unix.SIGCHLD:
			ended = p.collect() || ended
		case p.passes(&s):
			if ends(sig) && !p.listening {
				*undelivered = sig
			}
			if !ends(sig) || !p.jumping || p.listening {
				tell(p.Pid.Supervisor, sig)
			}
		}
		if !ends(sig) {
			continue
		}
		if p.unheard = sig; p.asked == 0 {
			p.asked = now()
		}
	}
	if *undelivered != 0 && p.listening {
		if !p.heard {
			tell(p.Pid.Supervisor, *undelivered)
		}
		*undelivered = 0
	}
	return ended
}

// forkRecovery starts the process that ends the session in place of a dead supervisor. The anchor itself starts no runtime: a
// signal would kill that before it hears any, and with it the last one that all orphans fall to. Whoever takes over may be killed as
// well, and is replaced. It dies with the anchor: nothing of the session is below it, and its lock would keep reap away. The result
// is negative after maxTakeovers.
func (p *Page) forkRecovery() int {
	p.jumping, p.listening, p.heard, p.fate, p.asked = true, false, false, int(unix.SIGKILL), 0
	if p.takeovers++; p.takeovers <= maxTakeovers {
		if s := fork(0); s >= 0 {
			p.asked = now()
			return s
		}
	}
	return -1
}

// nextLook is when the anchor is to look again: when it is due, or in a moment where it must ask for the parent.
func (p *Page) nextLook(due int) int {
	if !p.mustAsk() {
		return due
	}
	soon := now() + lookPause
	if due == 0 || soon < due {
		return soon
	}
	return due
}

// mustAsk reports whether there is a parent, but no pidfd of it.
func (p *Page) mustAsk() bool { return p.Pid.Parent > 0 && p.FD.Parent < 0 && !p.orphaned }

// parentGone reports whether the parent is gone, where there is no pidfd of it. It tells the supervisor.
func (p *Page) parentGone() bool {
	if !p.mustAsk() || getppid() == p.Pid.Parent {
		return false
	}
	p.orphaned = true
	tell(p.Pid.Supervisor, unix.SIGCHLD)
	return true
}

// collect waits for the children that have ended, and reports whether the supervisor was one of them. It exits with the code
// of a session that is over.
func (p *Page) collect() (ended bool) {
	for pid, status := p.reap(); pid > 0; pid, status = p.reap() {
		if pid != p.Pid.Supervisor {
			continue
		}
		if p.done {
			exit(p.code)
		}
		ended, p.fate = true, status
	}
	if !ended {
		p.resume(p.Pid.Supervisor)
	}
	return ended
}

// closeUnneeded lets go of what only the supervisor needs. The gateway, or whoever holds the other end, is to see the end of file when
// the session's processes have let go. Standard error stays, for a panic.
func (p *Page) closeUnneeded() {
	if !p.Terminal {
		if fd := openNull(); fd >= 0 {
			call(unix.SYS_DUP3, uintptr(fd), 0, 0)
			call(unix.SYS_DUP3, uintptr(fd), 1, 0)
		}
	}
	low, high := min(p.FD.Parent, p.FD.Signals), max(p.FD.Parent, p.FD.Signals)
	closeRange(3, low-1)
	closeRange(max(low+1, 3), high-1)
	closeRange(high+1, lastFD)
}

// closeRange closes the descriptors from the first to the last.
func closeRange(first, last int) {
	if first > last || call(unix.SYS_CLOSE_RANGE, uintptr(first), uintptr(last), 0) == 0 {
		return
	}
	for fd := first; fd <= min(last, fewFDs); fd++ {
		closeFD(fd)
	}
}
