package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/proc"
	"mcp-tether/teardown"
)

// tree is one start of the server, to the end of all that it started.
type tree struct {
	machine teardown.Machine
	scope   teardown.Scope
	engine  *engine // nil where containers are not looked after
	// server is the child's pid until it is waited for, then 0; code is its exit code.
	server, code int
	// cause is why the tree ends, noCause while it does not.
	cause cause
	// clear says that the last look found nothing left, not even something to keep.
	clear bool
	// retryAt is when to look again during a teardown; zero when only events count.
	retryAt time.Time
	retry   time.Duration
	// lookedAt is when onlyOthers was over, and lookTook how long it took.
	lookedAt time.Time
	lookTook time.Duration
}

// adoptStrays makes a tree of what earlier servers have left, for the session to end.
func (s *Session) adoptStrays() {
	s.strays = false
	s.tree = &tree{scope: s.scope}
	s.tree.scope.Leaf, s.leaf = s.leaf, nil
	s.tree.scope.Helpers = s.helpers
	s.tree.machine.Grace = s.opts.grace()
}

// mayGoOn reports whether the server was not asked to end yet. It is true without a tree.
func (t *tree) mayGoOn() bool { return t == nil || t.machine.State <= teardown.Draining }

// due is when the tree has something to do without any event; zero when never.
func (t *tree) due() time.Time {
	if t == nil {
		return time.Time{}
	}
	return earliest(t.machine.Deadline, t.retryAt)
}

// step gives an event to the policy, and carries out the action.
func (s *Session) step(ev teardown.Event, why cause) {
	t := s.tree
	if why != noCause {
		t.cause = t.cause.unless(why, t.mayGoOn())
	}
	before := t.machine.State
	action := t.machine.Step(time.Now(), ev)
	changed := t.machine.State != before
	if changed && t.machine.State >= teardown.Ending {
		s.shutEngine()
	}
	switch action {
	case teardown.Terminate:
		s.terminate()
	case teardown.Kill:
		t.retry = 0
		s.kill()
	case teardown.Nothing:
	}
	if changed && t.machine.State != teardown.Done {
		s.log.Debug().Stringer("cause", t.cause).Stringer("state", t.machine.State).Msg("server is ending")
	}
}

// onChildren waits for ended children, and notices the end of the server and of the whole tree.
func (s *Session) onChildren() {
	t, exited := s.tree, false
	left, err := proc.Reap(func(pid int, ws unix.WaitStatus) {
		if pid == s.sweeper.PID {
			s.sweeper = proc.ID{}
		}
		if t != nil && pid == t.server {
			t.server, t.code, exited = 0, proc.ExitCode(ws), true
		}
	})
	if err != nil {
		s.log.Warn().Err(err).Msg("children cannot be waited for")
	}
	if t == nil {
		return
	}
	if exited {
		s.onServerExit()
	}
	if t.server == 0 && t.empty(left) {
		t.clear = !left
		s.step(teardown.TreeEmpty, noCause)
		return
	}
	if exited {
		s.step(teardown.ServerExited, causeServer)
	}
}

// onServerExit: the server has ended, and other members may be left.
func (s *Session) onServerExit() {
	t := s.tree
	if s.holdsStreams && !s.hand.Terminal && s.hib == nil {
		// The gateway must see end of file when the last other holder of the streams ends.
		s.polled.remove(stdin)
		s.dropStdout()
		dropStreams()
	}
	if !t.mayGoOn() {
		return
	}
	s.lookForCrash()
	t.cause = t.cause.unless(causeServer, true)
	if s.hib.endsWithTree() {
		s.cause = s.cause.unless(causeServer, true)
	}
}

// empty reports whether no member is left. Without children nothing is below us, but the leaf may still hold a process that
// was moved there from outside. With children, all of them may be processes to keep.
func (t *tree) empty(childrenLeft bool) bool {
	if !childrenLeft && t.scope.Leaf == nil {
		return true
	}
	if !childrenLeft {
		populated, err := t.scope.Leaf.Populated()
		return err == nil && !populated
	}
	if t.mayGoOn() && t.server > 0 {
		return false
	}
	// The ends of a forking tree must not have us look all the time. There is another look at retryAt.
	return (t.lookTook < dearLook || time.Since(t.lookedAt) > t.lookTook) && t.onlyOthers()
}

// dearLook is how long a look at the process table may take that each end of a child may ask for.
const dearLook = 5 * time.Millisecond

// onlyOthers reports whether all that is left is kept on purpose, or was there before. It reads the process table, so it is
// called only at the end.
func (t *tree) onlyOthers() bool {
	began := time.Now()
	defer func() { t.lookedAt = time.Now(); t.lookTook = t.lookedAt.Sub(began) }()
	members, kept, err := t.scope.Members()
	return err == nil && len(members) == 0 && (len(kept)+t.others() > 0 || t.scope.OnlyHeldZombies())
}

// others counts the children that do not belong to the session.
func (t *tree) others() int { return len(t.scope.Foreign) + len(t.scope.Helpers()) }

// First and longest wait before looking again in a teardown. The end of a child arrives as a signal. Only the end of other
// members of the leaf, and new processes during the kill, must be looked for.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 100 * time.Millisecond
)

func (t *tree) lookAgain() {
	t.retry = min(max(2*t.retry, firstRetry), lastRetry)
	t.retryAt = time.Now().Add(t.retry)
}

// onTreeTime acts on what is due in a teardown.
func (s *Session) onTreeTime(now time.Time) {
	t := s.tree
	if t.machine.Due(now) {
		s.step(teardown.TimeUp, noCause)
	}
	if t.machine.State == teardown.Done || !isDue(t.retryAt, now) {
		return
	}
	t.retryAt = time.Time{}
	s.onChildren()
	switch t.machine.State {
	case teardown.Killing:
		s.kill()
	case teardown.Ending:
		s.terminate()
	}
}

// terminate asks those members to end that were not asked yet.
func (s *Session) terminate() {
	s.report(s.tree.scope.Terminate(s.tree.server))
	s.tree.lookAgain()
}

// kill is one round of SIGKILL.
func (s *Session) kill() {
	s.report(s.tree.scope.Kill(s.tree.server))
	s.tree.lookAgain()
}

// report logs at debug level which process was signalled, and why.
func (s *Session) report(sent []teardown.Sent) {
	for _, x := range sent {
		s.log.Debug().Int("pid", x.To.PID).Str("comm", x.To.Comm).Str("signal", unix.SignalName(x.Sig)).Stringer("cause", s.tree.cause).
			AnErr("error", x.Err).Msg("signalled")
	}
}

// remains are what is left of a tree that is over.
type remains struct {
	survivors []teardown.Survivor
	kept      []proc.Stat
	removed   removal
	leaked    bool
	// began is when the teardown began; zero if there was none.
	began time.Time
}

// closeTree releases all that belongs to the tree. The session has no tree afterwards.
func (s *Session) closeTree() remains {
	t := s.tree
	r := remains{began: t.machine.Began}
	if !t.clear {
		r.survivors = t.scope.Survivors(func() (members []proc.Stat) {
			members, r.kept, _ = t.scope.Members()
			return members
		})
		r.survivors = append(r.survivors, t.scope.Unclear()...)
	}
	r.removed = s.closeEngine()
	r.leaked = len(r.survivors) > 0 || t.unseen(r.kept) || r.removed.err != nil
	s.removeLeaf(r.kept)
	if s.code = t.code; t.server > 0 {
		// The server itself did not die, so its code is not known.
		s.code = ExitFailure
	}
	s.scope, s.tree = t.scope.Next(), nil
	s.postLetter(letter{})
	return r
}

// unseen reports whether children are left that cannot be listed (no /proc).
func (t *tree) unseen(kept []proc.Stat) bool {
	if t.clear || len(kept)+t.others() > 0 {
		return false
	}
	left, _ := proc.Reap(func(int, unix.WaitStatus) {})
	return left && !t.scope.OnlyHeldZombies()
}

// removeTries bounds the wait until the kernel allows the removal of a leaf whose last process has just been reaped.
const (
	removeTries = 50
	removePause = time.Millisecond
)

// removeLeaf removes the tree's cgroup; kept processes move to the parent first. If it cannot be removed, the next tree
// uses it.
func (s *Session) removeLeaf(kept []proc.Stat) {
	leaf := s.tree.scope.Leaf
	if leaf == nil {
		return
	}
	for _, k := range kept {
		_ = leaf.Expel(k.PID)
	}
	var err error
	for range removeTries {
		if err = leaf.Remove(); err == nil {
			leaf.Close()
			s.leaf, s.record.Cgroup = nil, ""
			return
		}
		proc.Sleep(removePause)
	}
	s.leaf = leaf
	s.log.Warn().Err(err).Msg("cgroup not removed")
}
