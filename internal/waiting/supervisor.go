//go:build amd64 || arm64

package waiting

import "golang.org/x/sys/unix"

// supervise is the supervisor. It returns when there is work for a runtime: that of the starter (no event), or its own.
func (p *Page) supervise() Event {
	p.Pid.Supervisor = getpid()
	if !p.Terminal {
		call(unix.SYS_SETSID)
	}
	p.noSubreaper = call(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1)
	p.FD.Anchor = openPidfd(p.Pid.Anchor)
	if getppid() != p.Pid.Anchor {
		exit(ExitFailure) // nothing was started
	}
	s := mustFork(unix.CLONE_FILES)
	if s == 0 {
		p.becomeStarter()
		return Event{}
	}
	p.Pid.Starter = s
	var w polled
	w.clear()
	w.add(onSignal, p.FD.Signals, unix.POLLIN)
	w.add(onParent, p.FD.Parent, unix.POLLIN)
	w.add(onAnchor, p.FD.Anchor, unix.POLLIN)
	for again := 0; ; {
		w.wait(again)
		if again != 0 && now() >= again {
			again = 0
			w.add(onClient, p.FD.Listener, unix.POLLIN)
		}
		ev := p.event(&w)
		if ev.Kind == ByClient && !hasRoom() {
			// The client waits until a runtime can have its threads. Nothing is killed for that.
			ev.Kind, again = 0, now()+second
		}
		if p.server == 0 && ev.Kind == 0 && p.ready {
			ev = p.spawn(&w)
		}
		if ev.Kind == 0 {
			continue
		}
		if ev.Kind != ByClient {
			p.NoteEnd()
		}
		p.jumping = true
		p.endStarter()
		return ev
	}
}

// becomeStarter is the starter, which is about to start its runtime. It dies with the supervisor.
func (p *Page) becomeStarter() {
	dieWith(p.Pid.Supervisor)
	early.role = Starter
	setMask(p.mask)
}

// event acts on what has happened, and says what the supervisor's runtime is to start for.
func (p *Page) event(w *polled) Event {
	var asked Event
	var s arrived
	for n := 0; n < fewSignals && p.take(&s); n++ {
		switch sig := s.signal(); {
		case ends(sig):
			if p.heard = true; asked.Kind == 0 {
				asked = Event{BySignal, sig}
			}
		case sig == unix.SIGCHLD:
			p.reapChildren()
		case p.server > 0 && !p.reaped && p.passes(&s):
			tell(p.server, sig)
		}
	}
	switch {
	case w.fired(onAnchor):
		return Event{Kind: ByAnchor}
	case w.fired(onParent), p.orphaned:
		return Event{Kind: ByParent}
	case w.fired(onGateway):
		return Event{Kind: ByGateway}
	case asked.Kind != 0:
		return asked
	case p.reaped && p.errno != 0:
		return Event{Kind: ByExec}
	case p.reaped:
		return Event{Kind: ByServer}
	case p.server == 0 && p.Pid.Starter < 0:
		return Event{Kind: ByStarter}
	case w.fired(onStdin):
		return Event{Kind: ByStdin}
	case w.fired(onStdout):
		return Event{Kind: ByStdout}
	case w.fired(onClient):
		return Event{Kind: ByClient}
	}
	return Event{}
}

// reapChildren waits for the children that have ended. If the starter has failed, its code is the session's.
func (p *Page) reapChildren() {
	for pid, status := p.reap(); pid > 0; pid, status = p.reap() {
		if pid != p.Pid.Starter {
			continue
		}
		p.Pid.Starter = -1
		p.closeOwn()
		if !p.ready && status&0x7f == 0 {
			p.code, p.done = status>>8, true
			exit(p.code)
		}
	}
	p.resume(p.Pid.Starter)
}

// endStarter ends a starter that still works: it shares our descriptors.
func (p *Page) endStarter() {
	if p.Pid.Starter <= 0 {
		return
	}
	tell(p.Pid.Starter, unix.SIGKILL)
	for call(unix.SYS_WAIT4, uintptr(p.Pid.Starter), 0, unix.WALL, 0) == -int(unix.EINTR) {
	}
	p.Pid.Starter = -1
}

// closeOwn closes what a starter or front that has ended had opened, but for what is kept. A descriptor that the next execve(2) passes
// on was given.
func (p *Page) closeOwn() {
	for fd := 3; fd < p.FD.ownBelow; fd++ {
		if !p.keeps(fd) && call(unix.SYS_FCNTL, uintptr(fd), unix.F_GETFD) == unix.FD_CLOEXEC {
			closeFD(fd)
		}
	}
	p.FD.ownBelow = 0
}
