package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/eventlog"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// Session is one session from its start to its exit. The server and all that it starts are its tree.
type Session struct {
	common
	started time.Time
	// asked are the owners without a pidfd, and ownersAt is when to ask for them next; zero where there are none.
	asked    []owner
	ownersAt time.Time

	signalled
	// holdsStreams says that standard input and output are the gateway's. A recovering anchor has let go of them.
	holdsStreams bool

	tree *tree // nil before the server's start
	// remover is the anchor's command line, where it recovers and there may be containers to remove.
	remover []string

	// sweepAt is when to look for dead sessions of the same user; zero when that is done.
	sweepAt time.Time
	// lookAt ends a wait for the predecessor; zero when there is none.
	lookAt time.Time
}

// Run supervises one session to its end and returns the exit code. It must be called on the locked main thread.
func Run(opts Options, hand argv.Handover) (int, error) {
	s := newSession(opts, hand)
	var err error
	if s.log, err = eventlog.Open(opts.Log, hand.ID, opts.Name); err != nil {
		return ExitFailure, err
	}
	if err := proc.ReadsOwnTable(); errors.Is(err, proc.ErrOtherTable) {
		return ExitFailure, fmt.Errorf("%w: nothing was started; mount the namespace's own /proc (unshare --mount-proc)", err)
	}
	if err := s.takeRoles(); err != nil {
		return ExitFailure, err
	}
	if hand.Anchor > 0 && os.Getppid() != hand.Anchor {
		return ExitFailure, fmt.Errorf("anchor (pid %d) ended while its session started: nothing was started", hand.Anchor)
	}
	s.watchOwners()
	if s.cause != session.NoCause {
		return ExitFailure, errors.New("gateway ended while its session started: nothing was started")
	}
	if code, err := s.start(); err != nil {
		s.cause, s.code = session.CauseStart, code
		return s.finish(), err
	}
	if !s.hand.Terminal {
		CloseInherited()
	}
	proc.PauseGC(proc.SessionMemory)
	if s.opts.HasDead != nil {
		s.sweepAt = time.Now().Add(sweepDelay)
	}
	s.loop()
	return s.finish(), nil
}

// newSession makes a session that has not begun. It cannot fail.
func newSession(opts Options, hand argv.Handover) *Session {
	for _, fd := range []int{hand.ParentFD, hand.Mailbox} {
		if fd >= 0 {
			unix.CloseOnExec(fd)
		}
	}
	proc.SetComm("mcp-tether")
	return &Session{common: common{opts: opts, hand: hand, inherited: proc.ReadAtExec()}, started: time.Now(), signalled: signalled{sigfd: -1}}
}

// takeRoles catches signals and becomes a subreaper, which must come before the server's start.
func (s *Session) takeRoles() (err error) {
	role := noJob
	switch {
	case s.hand.Terminal || s.hand.Anchor == 0 && s.hand.SharesGroup():
		role = jobMember
	case s.hand.SharesGroup():
		role = backgroundJob
	}
	if s.sigfd, err = listen(s.inherited, role); err != nil {
		return err
	}
	s.polled.add(signals, s.sigfd, unix.POLLIN)
	return proc.BecomeSubreaper()
}

// start takes the lease and starts the server. If that fails, it returns mcp-tether's exit code.
func (s *Session) start() (int, error) {
	path, err := proc.LookPath(s.opts.Command[0], searchPath())
	if err != nil {
		return startCode(err), err
	}
	// The lease first: a leaf without one would look like a dead session's.
	s.openRecord()
	if err := s.awaitPredecessor(); err != nil {
		return ExitFailure, err
	}
	if err := s.startTree(path); err != nil {
		return startCode(err), err
	}
	s.watchStreams()
	return 0, nil
}

// watchStreams watches for the gateway to close the streams. Nothing is read: POLLRDHUP and POLLHUP tell of a closed
// pipe, a shut-down socket and a closed peer. POLLERR on standard output tells that it has no reader any more.
func (s *Session) watchStreams() {
	s.holdsStreams = true
	s.polled.add(stdin, 0, unix.POLLRDHUP)
	s.polled.add(stdout, 1, 0)
}

// loop runs until the session is over.
func (s *Session) loop() {
	for {
		// Before the tree is closed: the removal of its containers may take a while.
		if state := s.state(); s.tree.keepsMore() || state != s.record.State {
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
		case stdin:
			s.request(teardown.StdinClosed, session.CauseStdin)
		case clients:
			s.tree.serveEngine()
		case predecessor:
			// awaitPredecessor looks again.
		default:
			s.end(causeOf(src))
		}
	}
	s.onTime(time.Now())
}

// timeout is how long poll may wait: for ever when nothing is due.
func (s *Session) timeout(now time.Time) time.Duration {
	due := proc.Earliest(s.tree.due(), s.ownersAt, s.sweepAt, s.rewriteAt, s.lookAt)
	if due.IsZero() {
		return -1
	}
	return max(due.Sub(now), 0)
}

// onTime acts on what is due.
func (s *Session) onTime(now time.Time) {
	if proc.IsDue(s.sweepAt, now) {
		s.sweepAt = time.Time{}
		if s.cause == session.NoCause {
			s.sweep()
		}
	}
	if proc.IsDue(s.ownersAt, now) {
		s.checkOwners(now)
	}
	if proc.IsDue(s.rewriteAt, now) {
		s.writeRecord(s.state())
	}
	if s.tree != nil && s.tree.onTime(now) {
		s.onChildren(true)
		s.tree.repeat()
	}
}

// end ends the session.
func (s *Session) end(why session.Cause) { s.request(teardown.MustEnd, why) }

// request takes an event that ends the session. The first one names the cause; only what follows a closed standard input
// may name another, as long as the server may still go on.
func (s *Session) request(ev teardown.Event, why session.Cause) {
	s.cause = s.cause.Unless(why, s.tree.mayGoOn())
	if s.tree != nil {
		s.tree.step(ev)
	}
}

// newTree makes the tree of the session.
func (s *Session) newTree() *tree {
	t := &tree{common: &s.common}
	t.machine.Grace = s.opts.grace()
	t.scope.Root, t.scope.Keep, t.scope.Helpers = os.Getpid(), s.opts.Keep, t.helpers
	t.scope.Cleanup = s.opts.KillTimeout / 2
	if s.hand.Anchor == 0 {
		t.scope.Foreign, t.scope.Mark = s.hand.Foreign, session.EnvID+"="+s.hand.ID
		t.scope.Since = sinceIfForeign(s.hand)
	}
	s.tree = t
	return t
}

// startTree starts the server.
func (s *Session) startTree(path string) error {
	err := s.newTree().start(path)
	if err == nil {
		s.writeRecord(s.state())
		s.log.Debug().Int("pid", s.tree.server).Str("behind", s.opts.Behind).Bool("shared", s.opts.Share != "").Msg("server started")
	}
	return err
}

// onChildren waits for ended children, and tells the tree if there were some, or if it is to look in any case.
func (s *Session) onChildren(look bool) {
	t := s.tree
	served := t != nil && t.server > 0
	left, err := proc.Reap(func(pid int, ws unix.WaitStatus) {
		look = true
		if pid == s.sweeper.PID {
			s.sweeper = proc.ID{}
		}
		t.noteServer(pid, ws)
	})
	if err != nil {
		s.log.Warn().Err(err).Msg("children cannot be waited for")
	}
	if t == nil || !look {
		return
	}
	exited := served && t.server == 0
	if exited {
		s.onServerExit()
	}
	t.onChildren(exited, left)
}

// onServerExit: the server has ended, and other members may be left.
func (s *Session) onServerExit() {
	if s.holdsStreams && !s.hand.Terminal {
		// The gateway must see end of file when the last other holder of the streams ends.
		s.polled.remove(stdin)
		s.polled.remove(stdout)
		dropStreams()
	}
	if s.tree.mayGoOn() {
		s.cause = s.cause.Unless(session.CauseServer, true)
	}
}

// onSignals acts on the signals that have arrived: first those that end the session, then the ends of children.
func (s *Session) onSignals() {
	s.arrived = proc.ReadCaught(s.sigfd, s.arrived[:0])
	for _, c := range s.arrived {
		if c.Ends() {
			s.onEnding(c)
		}
	}
	s.onChildren(false)
	for _, c := range s.arrived {
		if s.passes(c) {
			_ = proc.SignalChild(s.tree.server, c.Signal)
		}
	}
}

// passes reports whether a signal is for the server, and has not reached it from the keyboard.
func (s *Session) passes(c proc.Caught) bool {
	if s.tree == nil || s.tree.server == 0 || c.Ends() || c.Signal == syscall.SIGCHLD {
		return false
	}
	return !(s.hand.SharesGroup() && c.FromKeyboard()) && !c.OwnLimit()
}

// secondInterrupt is how close together two interrupts from a terminal must be to mean "end it".
const secondInterrupt = 2 * time.Second

// onEnding acts on a signal that ends the session. An interrupt from the keyboard has reached the server as well, and the
// server decides what it means: a shell or an interpreter goes on. The next one within two seconds is for us. Once the
// session is ending, another signal on a terminal shortens the wait.
func (s *Session) onEnding(c proc.Caught) {
	// While the session waits for its predecessor there is no server.
	if s.hand.SharesGroup() && c.FromKeyboard() && s.tree != nil && s.tree.mayGoOn() {
		first := time.Since(s.interrupted) > secondInterrupt
		s.interrupted = time.Now()
		if first {
			return
		}
	}
	ev := teardown.MustEnd
	if s.hand.Terminal {
		ev = teardown.Insist
	}
	s.request(ev, session.CauseSignal)
	if s.cause == session.CauseSignal && s.bySignal == 0 {
		s.bySignal = c.Signal
	}
}
