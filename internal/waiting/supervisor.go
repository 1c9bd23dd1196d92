//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// supervise is the supervisor. It returns when there is work for a runtime: that of the starter (why is 0), or its own.
func (p *Page) supervise() (why, what uintptr) {
	at := &p.supervisorRoom
	at.clear()
	p.supervisor = call(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	if p.terminal == 0 {
		call(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0)
	}
	p.noSubreaper = call(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
	p.anchorFD = call(unix.SYS_PIDFD_OPEN, uintptr(p.anchor), 0, 0, 0, 0, 0)
	if call(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0) != p.anchor {
		exit(ExitFailure) // nothing was started
	}
	s := call(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_FILES, 0, 0, 0, 0, 0)
	if s < 0 {
		fail("mcp-tether: no process can be started\n")
	}
	if s == 0 {
		p.becomeStarter()
		return 0, 0
	}
	p.starter = s
	at.poll(onSignal, p.signalFD, unix.POLLIN)
	at.poll(onParent, p.parentFD, unix.POLLIN)
	at.poll(onAnchor, p.anchorFD, unix.POLLIN)
	again := int64(0)
	for {
		at.wait(again)
		if again != 0 && at.now() >= again {
			again = 0
			at.poll(onClient, p.listenFD, unix.POLLIN)
		}
		why, what = p.event(at)
		if why == uintptr(ByClient) && !p.hasRoom(at) {
			// The client waits until a runtime can have its threads. Nothing is killed for that.
			why, again = 0, at.now()+second
		}
		if p.server == 0 && why == 0 && p.ready != 0 {
			why, what = p.spawn(at)
		}
		if why == 0 {
			continue
		}
		if why != uintptr(ByClient) {
			p.noteEnd(at)
		}
		p.jumping = 1
		p.endStarter()
		return why, what
	}
}

// becomeStarter is the starter, which is about to start its runtime. It dies with the supervisor.
func (p *Page) becomeStarter() {
	dieWith(p.supervisor)
	thisRole = uintptr(Starter)
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.mask)), 0, sigSetSize, 0, 0)
}

// event acts on what has happened. why is not 0 when the supervisor's runtime is to start.
func (p *Page) event(at *room) (why, what uintptr) {
	for sig, n := p.take(at), 0; sig != 0; sig, n = p.takeNext(at, n), n+1 {
		switch {
		case ends(sig):
			if p.heard = int64(sig); why == 0 {
				why, what = uintptr(BySignal), sig
			}
		case sig == uintptr(unix.SIGCHLD):
			p.reapChildren(at)
		case p.server > 0 && p.reaped == 0 && p.passes(at):
			tell(p.server, sig)
		}
	}
	switch {
	case at.fired(onAnchor):
		return uintptr(ByAnchor), 0
	case at.fired(onParent), p.orphaned != 0:
		return uintptr(ByParent), 0
	case at.fired(onGateway):
		return uintptr(ByGateway), 0
	case why != 0:
		return why, what
	case p.reaped != 0 && p.errno != 0:
		return uintptr(ByExec), 0
	case p.reaped != 0:
		return uintptr(ByServer), 0
	case p.server == 0 && p.starter < 0:
		return uintptr(ByStarter), 0
	case at.fired(onStdin):
		return uintptr(ByStdin), 0
	case at.fired(onStdout):
		return uintptr(ByStdout), 0
	case at.fired(onClient):
		return uintptr(ByClient), 0
	}
	return 0, 0
}

// reapChildren waits for the children that have ended. If the starter has failed, its code is the session's.
func (p *Page) reapChildren(at *room) {
	for pid := p.reap(at); pid > 0; pid = p.reap(at) {
		if pid != p.starter {
			continue
		}
		p.starter = -1
		p.closeOwn()
		if p.ready == 0 && at.status&0x7f == 0 {
			p.code, p.done = int64(at.status>>8), 1
			exit(p.code)
		}
	}
	p.resume(at, p.starter)
}

// endStarter ends a starter that still works: it shares our descriptors.
func (p *Page) endStarter() {
	if p.starter <= 0 {
		return
	}
	tell(p.starter, uintptr(unix.SIGKILL))
	for call(unix.SYS_WAIT4, uintptr(p.starter), 0, unix.WALL, 0, 0, 0) == -int64(unix.EINTR) {
	}
	p.starter = -1
}
