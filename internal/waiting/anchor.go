//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch is the anchor. A signal that ends would kill a supervisor whose runtime is starting, or be lost in that moment: it is held
// until the runtime hears it. watch returns when the supervisor has not ended the session, and another process is to end it.
func (p *Page) watch() {
	at := &p.anchorRoom
	at.clear()
	at.poll(onSignal, p.signalFD, unix.POLLIN)
	at.poll(onParent, p.parentFD, unix.POLLIN)
	at.poll(onAnchor, call(unix.SYS_PIDFD_OPEN, uintptr(p.supervisor), 0, 0, 0, 0, 0), unix.POLLIN)
	due, killed, ended := int64(0), false, false
	p.undelivered = 0
	for !ended {
		at.wait(p.nextLook(at, due))
		ended = p.passSignals(at)
		if (at.fired(onParent) || p.parentGone()) && p.asked == 0 {
			p.asked = at.now()
		}
		if at.fired(onAnchor) && !ended && !killed {
			if p.done != 0 {
				exit(p.code)
			}
			// It is dead, and cannot be waited for: it is dying, or a tracer holds it.
			killed, due = true, at.now()+dying
		}
		if due == 0 && p.asked != 0 {
			if due = p.asked + p.longest; p.longest == 0 {
				due = p.asked + usual
			}
		}
		if ended || due == 0 || at.now() < due {
			continue
		}
		if killed { // in a system call that does not end
			break
		}
		killed, due = true, at.now()+dying
		tell(p.supervisor, uintptr(unix.SIGKILL))
	}
}

// passSignals passes on what has arrived, and waits for the children that have ended. It reports whether the supervisor has.
func (p *Page) passSignals(at *room) (ended bool) {
	for sig, n := p.take(at), 0; sig != 0; sig, n = p.takeNext(at, n), n+1 {
		switch {
		case sig == uintptr(unix.SIGCHLD):
			ended = p.collect(at) || ended
		case p.hasFront != 0 && p.listening == 0 && !ends(sig): // It would kill a front that does not hear it yet.
		case p.passes(at):
			if ends(sig) && p.listening == 0 {
				p.undelivered = sig
			}
			if !ends(sig) || p.jumping == 0 || p.listening != 0 {
				tell(p.supervisor, sig)
			}
		}
		if ends(sig) {
			p.unheard = int64(sig)
		}
		if ends(sig) && p.asked == 0 {
			p.asked = at.now()
		}
	}
	if p.undelivered != 0 && p.listening != 0 {
		if p.heard == 0 {
			tell(p.supervisor, p.undelivered)
		}
		p.undelivered = 0
	}
	return ended
}

// forkRecovery starts the process that ends the session in place of a dead supervisor. The anchor itself starts no runtime: a
// signal would kill that before it hears any, and with it the last one that all orphans fall to. Whoever takes over may be killed as
// well, and is replaced. It dies with the anchor: nothing of the session is below it, and its lock would keep reap away. The result
// is negative after maxTakeovers.
func (p *Page) forkRecovery() int64 {
	p.jumping, p.listening, p.heard, p.fate, p.asked = 1, 0, 0, int64(unix.SIGKILL), 0
	if p.takeovers++; p.takeovers <= maxTakeovers {
		if s := call(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); s >= 0 {
			p.asked = p.anchorRoom.now()
			return s
		}
	}
	return -1
}

// maxTakeovers bounds how often a killed process is replaced.
const maxTakeovers = 8

// nextLook is when the anchor is to look again: when it is due, or in a moment where it must ask for the parent.
func (p *Page) nextLook(at *room, due int64) int64 {
	if p.parent <= 0 || p.parentFD >= 0 || p.orphaned != 0 {
		return due
	}
	soon := at.now() + lookPause
	if due == 0 || soon < due {
		return soon
	}
	return due
}

// parentGone reports whether the parent is gone, where there is no pidfd of it. It tells the supervisor.
func (p *Page) parentGone() bool {
	if p.parent <= 0 || p.parentFD >= 0 || p.orphaned != 0 || call(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0) == p.parent {
		return false
	}
	p.orphaned = 1
	tell(p.supervisor, uintptr(unix.SIGCHLD))
	return true
}

// collect waits for the children that have ended, and reports whether the supervisor was one of them. It exits with the code
// of a session that is over.
func (p *Page) collect(at *room) (ended bool) {
	for pid := p.reap(at); pid > 0; pid = p.reap(at) {
		if pid != p.supervisor {
			continue
		}
		if p.done != 0 {
			exit(p.code)
		}
		ended, p.fate = true, int64(at.status)
	}
	if !ended {
		p.resume(at, p.supervisor)
	}
	return ended
}

// closeUnneeded lets go of what only the supervisor needs. The gateway, or whoever holds the other end, is to see the end of file when
// the session's processes have let go. Standard error stays, for a panic.
func (p *Page) closeUnneeded() {
	if p.terminal == 0 {
		null := "/dev/null\x00"
		fd := call(unix.SYS_OPENAT, atWorkingDir, uintptr(unsafe.Pointer(unsafe.StringData(null))), unix.O_RDWR|unix.O_CLOEXEC, 0, 0, 0)
		if fd >= 0 {
			call(unix.SYS_DUP3, uintptr(fd), 0, 0, 0, 0, 0)
			call(unix.SYS_DUP3, uintptr(fd), 1, 0, 0, 0, 0)
		}
	}
	low, high := min(p.parentFD, p.signalFD), max(p.parentFD, p.signalFD)
	closeRange(3, low-1)
	closeRange(max(low+1, 3), high-1)
	closeRange(high+1, lastFD)
}

const (
	// atWorkingDir is AT_FDCWD (openat(2)).
	atWorkingDir = ^uintptr(99)
	lastFD       = 1<<32 - 1
	// fewFDs are closed one by one before Linux 5.9.
	fewFDs = 1024
)

// closeRange closes the descriptors from the first to the last.
func closeRange(first, last int64) {
	if first > last || call(unix.SYS_CLOSE_RANGE, uintptr(first), uintptr(last), 0, 0, 0, 0) == 0 {
		return
	}
	for fd := first; fd <= min(last, fewFDs); fd++ {
		call(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0, 0)
	}
}
