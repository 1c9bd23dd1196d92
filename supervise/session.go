package supervise

import (
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/internal/waiting"
)

// common is what a session has in common with its tree: the options, the log, the poll set, and the record, which both
// fill in.
type common struct {
	opts Options
	id   string
	// page is what the processes of the session share; nil without an anchor.
	page   *waiting.Page
	above  above
	log    zerolog.Logger
	reader proc.Reader
	// polled is what the session waits for.
	polled pollSet
	onDisk
	// foreign are the children that were there before the session.
	foreign []proc.ID
	// sweeper ends dead sessions of the same user; zero when there is none.
	sweeper proc.ID
	// cause is why the session ends, NoCause while it does not, and code what it exits with.
	cause session.Cause
	code  int
}

// Session is one session from its start to its exit. The server and all that it starts are its tree.
type Session struct {
	common
	started time.Time
	signals *proc.Signals // nil where none can be caught
	arrived []syscall.Signal
	// bySignal is the signal of session.CauseSignal.
	bySignal syscall.Signal
	// holdsStreams says that standard input and output are the gateway's. The anchor has let go of them.
	holdsStreams bool
	tree         *tree // nil before the server's start
	// recovers says that the tree is the anchor's, in whose place this process ends it.
	recovers bool
}

// newSession makes a session that has not begun.
func newSession(opts Options, id string, above above) *Session {
	return &Session{common: common{opts: opts, id: id, above: above}, started: time.Now()}
}

// listen catches the signals. Four of them end the session, and all others are passed on to the server. On a terminal those of
// job control keep their action: Ctrl-Z stops us together with the server, which is in the same process group.
func (s *Session) listen() (err error) {
	leave := proc.SignalSet(0)
	if s.page != nil {
		// All others stay blocked, and are read one by one: a flood of them would keep a thread in its handler.
		leave = proc.SignalSet(s.page.Ignored) | ^proc.SessionSignals
	}
	if s.above.terminal {
		leave |= proc.JobControl
	}
	if s.signals, err = proc.Listen(leave); err != nil {
		return err
	}
	s.polled.add(signals, s.signals.FD(), unix.POLLIN)
	if s.page != nil && !s.recovers {
		s.polled.add(queued, s.page.FD.Signals, unix.POLLIN)
	}
	return nil
}

// watchStreams watches for the gateway to close the streams. Nothing is read: POLLRDHUP and POLLHUP tell of a closed
// pipe, a shut-down socket and a closed peer. POLLERR on standard output tells that it has no reader any more.
func (s *Session) watchStreams() {
	s.holdsStreams = true
	closed := func(fd int) bool { return s.page != nil && s.page.Closed(fd) }
	if !closed(0) {
		s.polled.add(stdin, 0, unix.POLLRDHUP)
	}
	if !closed(1) {
		s.polled.add(stdout, 1, 0)
	}
}

// loop runs until the session is over.
func (s *Session) loop() {
	for {
		// Before the tree is closed: the removal of its containers may take a while.
		if state := s.state(); state != s.record.State {
			s.writeRecord(state)
		}
		if s.tree.machine.State == teardown.Done {
			return
		}
		s.pollOnce()
	}
}

// pollOnce waits once, and acts on what has happened. Signals and ended children are looked for on every turn: a flood of
// signals must not hide the rest, nor may a signal be lost whose bell could not be rung.
func (s *Session) pollOnce() {
	fired := s.polled.wait(s.timeout(time.Now()))
	s.onSignals()
	for _, src := range fired {
		switch src {
		case signals:
			// They were read above.
		case queued:
			s.passQueued()
		case stdin:
			s.request(teardown.StdinClosed, session.CauseStdin)
		case clients:
			s.serveEngine()
		case made:
			s.noteMade()
		default:
			s.request(teardown.OwnerGone, causeOf(src))
		}
	}
	s.onTime(time.Now())
}

// timeout is how long poll may wait: for ever when nothing is due.
func (s *Session) timeout(now time.Time) time.Duration {
	due := s.tree.due()
	if due.IsZero() {
		return -1
	}
	return max(due.Sub(now), 0)
}

// onTime acts on what is due.
func (s *Session) onTime(now time.Time) {
	if s.tree.onTime(now) {
		s.onChildren(true)
		s.tree.repeat()
	}
}

// request takes an event that ends the session. The first one names the cause; only what follows a closed standard input
// may name another, as long as the server may still go on.
func (s *Session) request(ev teardown.Event, why session.Cause) {
	s.cause = s.cause.Unless(why, s.tree.mayGoOn())
	if s.page != nil {
		s.page.NoteEnd()
	}
	s.tree.step(ev)
}

// newTree makes the tree of the session.
func (s *Session) newTree() *tree {
	t := &tree{common: &s.common}
	t.machine.Grace = s.opts.Grace
	t.members.Root, t.members.Keep = os.Getpid(), s.opts.Keep
	t.members.KeepNothing, t.members.Began = s.opts.KeepNothing, s.started
	t.members.Above = []int{s.above.anchor, s.above.supervisor, s.above.parent, s.record.Parent.PID, s.record.Gateway.PID}
	t.members.Groups = s.serverGroups()
	t.killer = t.members.Killer(s.opts.Grace.Kill / 2)
	t.killer.Members = t.look
	if !s.sweeper.Zero() {
		t.members.Foreign = []proc.ID{s.sweeper}
	}
	if s.page == nil || s.recovers { // With a page they are the anchor's.
		t.members.Foreign = append(t.members.Foreign, s.foreign...)
	}
	if s.above.noSubreaper != nil && !s.above.terminal && s.page != nil {
		t.members.Session = s.record.Supervisor
	}
	s.tree = t
	return t
}

// serverGroups are the process groups of the server: where it was started, and its own if it has called setsid(2).
func (s *Session) serverGroups() (of [2]int) {
	if p := s.page; p != nil {
		of[0] = p.Group()
		of[1], _, _ = p.Server()
	} else if s.above.terminal {
		of[0] = unix.Getpgrp()
	}
	return of
}

// onChildren waits for ended children, and tells the tree if there were some, or if it is to look in any case.
func (s *Session) onChildren(look bool) {
	t := s.tree
	served, ended := t.server > 0, false
	left, err := proc.Reap(func(pid int, ws unix.WaitStatus) {
		ended = true
		if pid == s.sweeper.PID {
			s.sweeper = proc.ID{}
		}
		t.noteServer(pid, ws)
	})
	left = left || s.recovers
	if err != nil {
		s.log.Warn().Err(err).Msg("children cannot be waited for")
	}
	if !look && !ended {
		return
	}
	exited := served && t.server == 0
	if exited {
		s.onServerExit()
	}
	t.onChildren(exited, left, look)
}

// onServerExit: the server has ended, and other members may be left.
func (s *Session) onServerExit() {
	if s.holdsStreams && !s.above.terminal {
		// The gateway must see end of file when the last other holder of the streams ends.
		s.polled.remove(stdin)
		s.polled.remove(stdout)
		dropStreams()
	}
	if s.tree.mayGoOn() {
		s.cause = s.cause.Unless(session.CauseServer, true)
	}
}

// dropStreams puts /dev/null in place of standard input and output.
func dropStreams() {
	null, err := proc.OpenNull()
	if err != nil {
		return
	}
	_ = unix.Dup3(null, 0, 0)
	_ = unix.Dup3(null, 1, 0)
	_ = unix.Close(null)
}

// onSignals acts on the signals that have arrived: first those that end the session, then the ends of children.
func (s *Session) onSignals() {
	s.arrived = s.signals.Take(s.arrived[:0])
	for _, sig := range s.arrived {
		if proc.Ends(sig) {
			s.onEnding(sig)
		}
	}
	s.onChildren(false)
	for _, sig := range s.arrived {
		if s.tree.server > 0 && !proc.Ends(sig) && sig != syscall.SIGCHLD {
			_ = proc.SignalChild(s.tree.server, sig)
		}
	}
}

// fewSignals bounds how many signals are passed on in a turn.
const fewSignals = 64

// passQueued passes signals on that do not end the session.
func (s *Session) passQueued() {
	for range fewSignals {
		sig, more := s.page.Queued()
		if !more {
			return
		}
		if sig != 0 && s.tree.server > 0 {
			_ = proc.SignalChild(s.tree.server, sig)
		}
	}
}

// onEnding acts on a signal that ends the session. Once that is ending, another one on a terminal shortens the wait.
func (s *Session) onEnding(sig syscall.Signal) {
	ev := teardown.MustEnd
	if s.above.terminal {
		ev = teardown.Insist
	}
	s.request(ev, session.CauseSignal)
	if s.cause == session.CauseSignal && s.bySignal == 0 {
		s.bySignal = sig
	}
}
