//go:build amd64 || arm64

package waiting

import "golang.org/x/sys/unix"

// forkFront forks a front, and returns true in it: its runtime is to start. To the front its waiter is what an anchor is to a
// supervisor. The two share their table of files: the record's lock and the client's streams are the waiter's while there is no front.
func (p *Page) forkFront() (front bool) {
	p.hasFront, p.jumping, p.listening, p.fate = true, true, false, int(unix.SIGKILL)
	if s := mustFork(unix.CLONE_FILES); s > 0 {
		p.Pid.Supervisor = s
		return false
	}
	dieWith(p.Pid.Anchor)
	call(unix.SYS_SETSID)
	setMask(p.mask)
	early.role = Front
	return true
}

// waitAsleep waits alone once the front has fallen asleep, until there is work for the next one or the session ends. Whatever else
// has ended the front has ended the session, too.
func (p *Page) waitAsleep() {
	if p.takeovers++; !p.saved || p.takeovers > maxTakeovers {
		p.exitAsFront()
	}
	p.closeOwn()
	early.happened = Event{}
	if p.unheard != 0 { // It came while the front was leaving.
		early.happened, p.asked, p.unheard = Event{BySignal, p.unheard}, now(), 0
	}
	var w polled
	for {
		for early.happened.Kind == 0 {
			w.clear()
			w.add(onSignal, p.FD.Signals, unix.POLLIN)
			w.add(onParent, p.FD.Parent, unix.POLLIN)
			w.add(onGateway, p.FD.Gateway, unix.POLLIN)
			w.addStreams(p, unix.POLLIN)
			w.wait(p.nextLook(0))
			p.noteEvents(&w)
		}
		over := early.happened.Kind != ByStdin || w.clientHungUp()
		if over && p.quiet {
			p.conclude()
		}
		if hasRoom() {
			return
		}
		if over { // A runtime that cannot start its threads aborts.
			p.conclude()
		}
		sleep(second) // A client has to wait.
		early.happened = Event{}
	}
}

// noteEvents notes what there is for a front to do.
func (p *Page) noteEvents(w *polled) {
	var s arrived
	for n := 0; n < fewSignals && p.take(&s); n++ {
		sig := s.signal()
		if sig == unix.SIGCHLD {
			for pid := 1; pid > 0; pid, _ = p.reap() {
			}
		}
		if ends(sig) && early.happened.Kind == 0 {
			early.happened = Event{BySignal, sig}
		}
	}
	switch {
	case w.fired(onParent), w.fired(onGateway), p.orphaned, p.parentGone():
		early.happened = Event{Kind: ByParent}
	case early.happened.Kind != 0:
	case w.fired(onStdout):
		early.happened.Kind = ByStdout
	case w.fired(onStdin):
		early.happened.Kind = ByStdin
	}
	p.asked = 0
	if early.happened.Kind != 0 && early.happened.Kind != ByStdin {
		p.asked = now()
	}
}

// exitAsFront exits as the front has.
func (p *Page) exitAsFront() {
	if p.Frontless {
		p.executeSession()
	}
	exit(exitCode(p.fate))
}

// executeSession goes on as a session without a front, in place of the waiter.
func (p *Page) executeSession() {
	setMask(p.mask)
	if p.childrenIgnored {
		setAction(unix.SIGCHLD, ignoreAction)
	}
	args := wordsAt(early.stack, 3)[1:]
	args[1] = textAddress(RoleSession + "\x00")
	execute(textAddress("/proc/self/exe\x00"), address(&args[0]))
	fail("mcp-tether: it cannot execute itself\n")
}
