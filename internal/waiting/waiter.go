//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// forkFront forks a front, and returns true in it: its runtime is to start. To the front its waiter is what an anchor is to a
// supervisor. The two share their table of files: the record's lock and the client's streams are the waiter's while there is no front.
func (p *Page) forkFront() (front bool) {
	p.hasFront, p.jumping, p.listening, p.fate = 1, 1, 0, int64(unix.SIGKILL)
	s := call(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_FILES, 0, 0, 0, 0, 0)
	if s < 0 {
		fail("mcp-tether: no process can be started\n")
	}
	if s > 0 {
		p.supervisor = s
		return false
	}
	dieWith(p.anchor)
	call(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0)
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.mask)), 0, sigSetSize, 0, 0)
	thisRole = uintptr(Front)
	return true
}

// waitAsleep waits alone once the front has fallen asleep, until there is work for the next one or the session ends. Whatever else
// has ended the front has ended the session, too.
func (p *Page) waitAsleep() {
	if p.takeovers++; p.saved == 0 || p.takeovers > maxTakeovers {
		p.exitAsFront()
	}
	p.closeOwn()
	at := &p.anchorRoom
	happened = 0
	if p.unheard != 0 { // It came while the front was leaving.
		happened, detail, p.asked, p.unheard = uintptr(BySignal), uintptr(p.unheard), at.now(), 0
	}
	for {
		for happened == 0 {
			at.clear()
			at.poll(onSignal, p.signalFD, unix.POLLIN)
			at.poll(onParent, p.parentFD, unix.POLLIN)
			at.poll(onGateway, p.gatewayFD, unix.POLLIN)
			if p.closed&1 == 0 {
				at.poll(onStdin, 0, unix.POLLIN|unix.POLLRDHUP)
			}
			if p.closed&2 == 0 {
				at.poll(onStdout, 1, 0)
			}
			at.wait(p.nextLook(at, 0))
			p.noteEvents(at)
		}
		over := happened != uintptr(ByStdin) || p.clientHungUp(at)
		if over && p.quiet != 0 {
			p.conclude(at)
		}
		if p.hasRoom(at) {
			return
		}
		if over { // A runtime that cannot start its threads aborts.
			p.conclude(at)
		}
		at.sleep(second) // A client has to wait.
		happened = 0
	}
}

// noteEvents notes what there is for a front to do.
func (p *Page) noteEvents(at *room) {
	for sig, n := p.take(at), 0; sig != 0; sig, n = p.takeNext(at, n), n+1 {
		if sig == uintptr(unix.SIGCHLD) {
			for p.reap(at) > 0 {
			}
		}
		if ends(sig) && happened == 0 {
			happened, detail = uintptr(BySignal), sig
		}
	}
	switch {
	case at.fired(onParent), at.fired(onGateway), p.orphaned != 0, p.parentGone():
		happened = uintptr(ByParent)
	case happened != 0:
	case at.fired(onStdout):
		happened = uintptr(ByStdout)
	case at.fired(onStdin):
		happened = uintptr(ByStdin)
	}
	p.asked = 0
	if happened != 0 && happened != uintptr(ByStdin) {
		p.asked = at.now()
	}
}

// exitAsFront exits as the front has.
func (p *Page) exitAsFront() {
	if p.frontless != 0 {
		p.executeSession()
	}
	if p.fate&0x7f != 0 {
		exit(128 + p.fate&0x7f)
	}
	exit(p.fate >> 8 & 0xff)
}

// executeSession goes on as a session without a front, in place of the waiter.
func (p *Page) executeSession() {
	self, as := "/proc/self/exe\x00", RoleSession+"\x00"
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.mask)), 0, sigSetSize, 0, 0)
	if p.childrenIgnored != 0 {
		p.setAction(uintptr(unix.SIGCHLD), ignoreAction)
	}
	setWord(initialStack+2*wordSize, uintptr(unsafe.Pointer(unsafe.StringData(as))))
	call(unix.SYS_EXECVE, uintptr(unsafe.Pointer(unsafe.StringData(self))), initialStack+wordSize, environment(), 0, 0, 0)
	fail("mcp-tether: it cannot execute itself\n")
}
