package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// The causes of an end, as the closing event names them.
const (
	causeServer     = "server-exited"
	causeStdin      = "stdin-closed"
	causeStdout     = "stdout-closed"
	causeGateway    = "gateway-gone"
	causeAnchor     = "anchor-gone"
	causeSignal     = "signal"
	causeSupervisor = "supervisor-gone"
	causeStart      = "start-failed"
)

func causeOf(s source) string {
	switch s {
	case stdin:
		return causeStdin
	case stdout:
		return causeStdout
	case anchor:
		return causeAnchor
	default:
		return causeGateway
	}
}

// loop runs until the session is over.
func (s *supervisor) loop() {
	for s.machine.State != teardown.Done || s.rests() {
		for _, src := range s.wait() {
			switch src {
			case signals:
				s.onSignals()
			case stdin:
				s.onStdinClosed()
			case clients:
				s.serveEngine()
			default:
				s.end(causeOf(src))
				s.blame(src)
			}
		}
		s.onTime(time.Now())
	}
}

// wait waits for the next events, and moves what the relay has to move.
func (s *supervisor) wait() []source {
	now := time.Now()
	if s.hib == nil {
		return s.watch.wait(s.timeout(now))
	}
	ready := s.hib.polls(now)
	fired := s.watch.wait(s.timeout(now), &ready[0], &ready[1])
	s.relay(ready)
	return fired
}

func (s *supervisor) onStdinClosed() {
	if s.hib != nil {
		s.clientClosed()
		return
	}
	s.step(teardown.StdinClosed, causeStdin)
}

// timeout is how long poll may wait: for ever when nothing is due.
func (s *supervisor) timeout(now time.Time) time.Duration {
	due := earliest(s.machine.Deadline, s.retryAt, s.nextParentCheck, s.sweepAt, s.hib.due())
	if due.IsZero() {
		return -1
	}
	return max(due.Sub(now), 0)
}

// earliest is the first of the times that are set, zero when none is.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// step gives the policy an event, and does what it answers. The first event that ends the session names the cause.
func (s *supervisor) step(ev teardown.Event, cause string) {
	if s.machine.State <= teardown.Draining && cause != "" && !(s.cause != "" && ev == teardown.StdinClosed) {
		s.cause = cause
	}
	if s.hib != nil && (ev == teardown.MustEnd || ev == teardown.Hurry || cause == causeStdin) {
		s.sleepNoMore(cause)
	}
	before := s.machine.State
	action := s.machine.Step(time.Now(), ev)
	if s.machine.State >= teardown.Ending {
		s.shutEngine()
	}
	switch action {
	case teardown.Terminate:
		s.report(s.scope.Terminate(s.server))
		s.lookAgain()
	case teardown.Kill:
		s.retry = 0
		s.kill()
	case teardown.Nothing:
	}
	// Who sleeps has nothing that could take time to end.
	if before == teardown.Running && s.machine.State != before && s.machine.State != teardown.Done && s.lease != nil && s.scope.Server > 0 {
		s.writeRecord(session.StateEnding)
	}
	if s.machine.State != before && s.machine.State != teardown.Done {
		s.log.Debug().Str("cause", s.cause).Stringer("state", s.machine.State).Msg("session is ending")
	}
}

// blame corrects the cause: the kernel closes a dying gateway's pipes before its pidfd tells of the death, so the first
// thing seen of it is often that nobody reads standard output any more.
func (s *supervisor) blame(src source) {
	if s.cause == causeStdout && (src == parent || src == gateway || src == anchor) {
		s.cause = causeOf(src)
	}
}

func (s *supervisor) end(cause string) { s.step(teardown.MustEnd, cause) }

// onSignals acts on the signals that have arrived.
func (s *supervisor) onSignals() {
	s.arrived = proc.ReadCaught(s.sigfd, s.arrived[:0])
	for _, c := range s.arrived {
		switch {
		case c.Signal == syscall.SIGCHLD:
			s.reap()
		case ends(c.Signal):
			s.onEnding(c)
		case s.server > 0 && !shared(c, s.hand.Terminal):
			_ = proc.SignalChild(s.server, c.Signal)
		}
	}
}

// twice is how close together two interrupts from a terminal mean "end it".
const twice = 2 * time.Second

// onEnding takes a signal that ends the session. An interrupt from the keyboard has reached the server as well, and what
// it means is the server's to say (a shell or an interpreter goes on); the next one within two seconds is for us. Once
// the session is ending, another signal on a terminal means not to wait any longer.
func (s *supervisor) onEnding(c proc.Caught) {
	if shared(c, s.hand.Terminal) && s.machine.State < teardown.Ending {
		first := time.Since(s.interrupted) > twice
		s.interrupted = time.Now()
		if first {
			return
		}
	}
	if s.machine.State <= teardown.Draining {
		s.bySignal = c.Signal
	}
	if s.hand.Terminal {
		s.step(teardown.Hurry, causeSignal)
		return
	}
	s.step(teardown.MustEnd, causeSignal)
}

// reap waits for ended children, and notes the server's end and that of the whole tree.
func (s *supervisor) reap() {
	exited := false
	left, err := proc.Reap(func(pid int, ws unix.WaitStatus) {
		if pid == s.server {
			s.server, s.code, exited = 0, proc.ExitCode(ws), true
		}
	})
	if err != nil {
		s.log.Warn().Err(err).Msg("children cannot be waited for")
	}
	if exited {
		// Nobody needs our copies any more: the gateway shall see end of file when the last other holder ends.
		if !s.hand.Terminal && s.hib == nil {
			s.watch.drop(stdin)
			s.watch.drop(stdout)
			dropStreams()
		}
		if s.machine.State <= teardown.Draining && s.cause == "" {
			s.cause = causeServer
		}
	}
	if s.hib != nil && s.hib.state == asleep && s.machine.State == teardown.Running {
		// Nothing ends here: there is no tree. A signal that came together with this one must still find the session running.
		return
	}
	if s.server == 0 && s.empty(left) {
		s.clear = !left
		s.step(teardown.TreeEmpty, "")
		return
	}
	if exited {
		s.step(teardown.ServerExited, causeServer)
	}
}

// empty reports whether nothing of the session is left. Without children nothing is below us; the leaf may still hold a
// process that somebody else put there. With children, all of them may be such as to be kept.
func (s *supervisor) empty(childrenLeft bool) bool {
	if !childrenLeft && s.scope.Leaf == nil {
		return true
	}
	if !childrenLeft {
		populated, err := s.scope.Leaf.Populated()
		return err == nil && !populated
	}
	if s.machine.State < teardown.Ending && s.server > 0 {
		return false
	}
	return s.onlyOthers()
}

// onlyOthers reports whether all that is left is kept on purpose, or was there before. It reads the tree, so it is asked
// only at the end.
func (s *supervisor) onlyOthers() bool {
	members, kept, err := s.scope.Members()
	return err == nil && len(members) == 0 && len(kept)+s.others() > 0
}

// others counts the children that do not belong to the session.
func (s *supervisor) others() int {
	if s.engine == nil {
		return len(s.scope.Foreign)
	}
	return len(s.scope.Foreign) + len(s.engine.running())
}

// First and longest wait before looking again in a teardown. Ends of children arrive as signals; what has to be looked
// for is the end of a leaf's other members, and fresh forks during the kill.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 100 * time.Millisecond
)

func (s *supervisor) lookAgain() {
	s.retry = min(max(2*s.retry, firstRetry), lastRetry)
	s.retryAt = time.Now().Add(s.retry)
}

// sweepDelay is how long after the server's start to look for dead sessions: off its path.
const sweepDelay = time.Second

// sweep ends this user's dead sessions, beside the loop: that may take as long as a teardown.
func (s *supervisor) sweep() {
	s.sweepAt = time.Time{}
	if s.machine.State != teardown.Running || !s.opts.HasDead() {
		return
	}
	log := s.log
	go func() {
		if err := s.opts.Sweep(); err != nil {
			log.Warn().Err(err).Msg("dead sessions not swept")
		}
	}()
}

// onTime acts on what is due.
func (s *supervisor) onTime(now time.Time) {
	if !s.sweepAt.IsZero() && !now.Before(s.sweepAt) {
		s.sweep()
	}
	if tick := s.nextParentCheck; !tick.IsZero() && !now.Before(tick) {
		s.checkParent(now)
	}
	s.onRelayTime(now)
	if s.machine.Due(now) {
		s.step(teardown.TimeUp, "")
	}
	if s.retryAt.IsZero() || now.Before(s.retryAt) || s.machine.State == teardown.Done {
		return
	}
	s.retryAt = time.Time{}
	s.reap()
	switch s.machine.State {
	case teardown.Killing:
		s.kill()
	case teardown.Ending:
		s.report(s.scope.Terminate(s.server))
		s.lookAgain()
	}
}

// kill is one round of SIGKILL.
func (s *supervisor) kill() {
	s.report(s.scope.Kill(s.server))
	s.lookAgain()
}

// report writes down at debug level who was signalled, and why.
func (s *supervisor) report(sent []teardown.Sent) {
	for _, x := range sent {
		s.log.Debug().Int("pid", x.To.PID).Str("comm", x.To.Comm).Str("signal", unix.SignalName(x.Sig)).Str("cause", s.cause).
			AnErr("error", x.Err).Msg("signalled")
	}
}

// finish cleans up after the tree, writes the closing event and returns the exit code.
func (s *supervisor) finish() int {
	var (
		survivors []teardown.Survivor
		kept      []proc.Stat
	)
	if !s.clear {
		var members []proc.Stat
		members, kept, _ = s.scope.Members()
		survivors = s.scope.Survivors(members)
	}
	s.flushRelay()
	if s.engine == nil && s.containersLeft && s.lease != nil {
		s.engine = s.findEngine(s.lease.Dir())
	}
	removed := s.closeEngine()
	leaked := len(survivors) > 0 || s.unseen(kept) || removed.err != nil
	s.removeLeaf(kept)
	s.closeRecord(leaked)
	for _, src := range s.watch.wait(0) {
		s.blame(src)
	}
	if s.server > 0 {
		// The server itself would not die: its code is not known.
		s.code = ExitFailure
	}
	s.logEnd(survivors, kept, removed, leaked)
	return s.code
}

// unseen reports whether children are left that cannot be listed (no /proc).
func (s *supervisor) unseen(kept []proc.Stat) bool {
	if s.clear || len(kept)+s.others() > 0 {
		return false
	}
	left, _ := proc.Reap(func(int, unix.WaitStatus) {})
	return left
}

// logEnd writes the one closing event of a session.
func (s *supervisor) logEnd(survivors []teardown.Survivor, kept []proc.Stat, removed removal, leaked bool) {
	ev := s.log.Info()
	if leaked {
		ev = s.log.Error()
	}
	if ev == nil {
		return
	}
	if s.bySignal != 0 && s.cause == causeSignal {
		ev = ev.Str("signal", unix.SignalName(s.bySignal))
	}
	keptPIDs := zerolog.Arr()
	for _, k := range kept {
		keptPIDs.Int(k.PID)
	}
	left := zerolog.Arr()
	for _, v := range survivors {
		left.Dict(zerolog.Dict().Int("pid", v.PID).Str("comm", v.Comm).Int("uid", v.UID).Str("why", v.Why))
	}
	if n := len(removed.ended); n > 0 {
		ev = ev.Int("containers", n)
	}
	now, began := time.Now(), s.machine.Began
	if began.IsZero() {
		began = now
	}
	ev.Str("cause", s.cause).Int("exit", s.code).Array("survivors", left).Bool("leaked", leaked).
		Array("kept", keptPIDs).Float64("uptime_ms", milliseconds(now.Sub(s.started))).
		Float64("teardown_ms", milliseconds(now.Sub(began))).Msg("session ended")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// removeTries bounds the wait for the kernel to let go of a leaf whose last process was reaped a moment ago.
const (
	removeTries = 50
	removePause = time.Millisecond
)

// removeLeaf removes the session's cgroup; kept processes move to the parent first.
func (s *supervisor) removeLeaf(kept []proc.Stat) {
	leaf := s.scope.Leaf
	if leaf == nil {
		return
	}
	for _, k := range kept {
		_ = leaf.Expel(k.PID)
	}
	var err error
	for range removeTries {
		if err = leaf.Remove(); err == nil {
			break
		}
		time.Sleep(removePause)
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("cgroup not removed")
	}
	leaf.Close()
}

// parentPoll is how often to ask for the parent where the kernel has no pidfd to wait on (before Linux 5.3).
const parentPoll = 250 * time.Millisecond

// checkParent compares the parents with what they were.
func (s *supervisor) checkParent(now time.Time) {
	s.nextParentCheck = now.Add(parentPoll)
	ours := os.Getppid()
	if s.hand.Anchor == 0 {
		if ours != s.hand.Parent {
			s.loseParent(causeGateway)
		}
		return
	}
	if ours != s.hand.Anchor {
		s.loseParent(causeAnchor)
		return
	}
	if st, err := s.reader.Stat(s.hand.Anchor); err == nil && st.PPID != s.hand.Parent {
		s.loseParent(causeGateway)
		return
	}
	// A gateway behind a launcher.
	g := s.record.Gateway
	if st, err := s.reader.Stat(g.PID); g != s.record.Parent && (errors.Is(err, proc.ErrGone) || err == nil && st.ID != g) {
		s.loseParent(causeGateway)
	}
}

func (s *supervisor) loseParent(cause string) {
	s.nextParentCheck = time.Time{}
	s.end(cause)
}
