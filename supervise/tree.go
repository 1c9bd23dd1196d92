package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/teardown"
)

// tree is the server and all that it started.
type tree struct {
	*common
	machine teardown.Machine
	scope   teardown.Scope
	engine  *keeper.Keeper // nil where containers are not looked after
	// server is the child's pid until it is waited for, then 0. started is its pid for good.
	server, started int
	// clear says that the last look found nothing left, not even something to keep.
	clear bool
	// retryAt is when to look again during a teardown; zero when only events count.
	retryAt time.Time
	retry   time.Duration
	// lookedAt is when onlyOthers last ended, and lookTook how long it took.
	lookedAt time.Time
	lookTook time.Duration
	toll     toll
	// killFD is the leaf's cgroup.kill, open for the supervisor.
	killFD int
}

// mayGoOn reports whether the server was not asked to end yet. It is true without a tree.
func (t *tree) mayGoOn() bool { return t == nil || t.machine.State <= teardown.Draining }

// due is when the tree has something to do without any event; zero when never.
func (t *tree) due() time.Time {
	if t == nil {
		return time.Time{}
	}
	return proc.Earliest(t.machine.Deadline, t.retryAt)
}

// step gives an event to the policy, and carries out the action.
func (t *tree) step(ev teardown.Event) {
	before := t.machine.State
	action := t.machine.Step(time.Now(), ev)
	changed := t.machine.State != before
	if changed && t.machine.State >= teardown.Ending {
		t.shutEngine()
	}
	// Before the signals, as their reason. A supervisor that is killed between them has told it.
	if changed && t.machine.State != teardown.Done {
		t.log.Debug().Str("cause", string(t.cause)).Stringer("state", t.machine.State).Msg("server is ending")
	}
	switch action {
	case teardown.Terminate:
		t.terminate()
	case teardown.Kill:
		t.retry = 0
		t.kill()
	case teardown.Nothing:
	}
}

// noteServer keeps the exit code of the server, when that has been waited for. There may be no tree.
func (t *tree) noteServer(pid int, ws unix.WaitStatus) {
	if t != nil && pid == t.server {
		t.server, t.code = 0, proc.ExitCode(ws)
	}
}

// onChildren acts on the ends of children that have been waited for. exited says that the server was one of them, and left
// that there are more children.
func (t *tree) onChildren(exited, left bool) {
	switch {
	case t.server == 0 && t.empty(left):
		t.clear = !left
		t.step(teardown.TreeEmpty)
	case exited:
		t.step(teardown.ServerExited)
	}
}

// empty reports whether no member is left. Without children nothing is below us, but the leaf may still hold a process that
// was moved there from outside. With children, all of them may be processes to keep.
func (t *tree) empty(childrenLeft bool) bool {
	if !childrenLeft {
		return t.scope.Leaf == nil || t.emptyLeaf()
	}
	if t.mayGoOn() && t.server > 0 {
		return false
	}
	// The many ends of a forking tree must not make us look all the time. There is another look at retryAt.
	return (t.lookTook < costlyLook || time.Since(t.lookedAt) > t.lookTook) && t.onlyOthers()
}

// emptyLeaf reports whether there is a leaf, and no process in it.
func (t *tree) emptyLeaf() bool {
	if t.scope.Leaf == nil {
		return false
	}
	populated, err := t.scope.Leaf.Populated()
	return err == nil && !populated
}

// costlyLook is how long a look at the process table may take and still be repeated at each end of a child.
const costlyLook = 5 * time.Millisecond

// onlyOthers reports whether all that is left is kept on purpose, was there before, or is dead. It reads the process table, so it is
// called only at the end.
func (t *tree) onlyOthers() bool {
	began := time.Now()
	defer func() { t.lookedAt = time.Now(); t.lookTook = t.lookedAt.Sub(began) }()
	// A process that is reparented while the table is read may be missed once.
	for range 2 {
		if !t.explained() {
			return false
		}
	}
	return true
}

// explained reports whether a look finds no member, and something else that explains why a child is left: it is kept on purpose, or
// not the session's, or dead (a tracer may hold it).
func (t *tree) explained() bool {
	members, kept, err := t.scope.Members()
	return err == nil && len(members) == 0 && !t.scope.Unseen() && len(kept)+t.others()+t.scope.Dead() > 0
}

// others counts the processes that do not belong to the session: those that the last look has found, and those that it
// cannot see (hidepid). One that has ended explains nothing that is left.
func (t *tree) others() int {
	n := t.scope.Strangers()
	for _, id := range append(t.scope.Helpers(), t.scope.Foreign...) {
		if t.reader.Life(id) != proc.Dead {
			n++
		}
	}
	return n
}

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

// onTime acts on what is due. look says that it is time to look again at what is left: wait for ended children, and
// then call repeat.
func (t *tree) onTime(now time.Time) (look bool) {
	if t.machine.Due(now) {
		t.step(teardown.TimeUp)
	}
	if t.machine.State == teardown.Done || !proc.IsDue(t.retryAt, now) {
		return false
	}
	t.retryAt = time.Time{}
	return true
}

// repeat signals what has turned up since the last time.
func (t *tree) repeat() {
	switch t.machine.State {
	case teardown.Killing:
		t.kill()
	case teardown.Ending:
		t.terminate()
	}
}

// terminate asks all members that were not asked yet to end.
func (t *tree) terminate() {
	t.report(t.scope.Terminate(t.server))
	t.lookAgain()
}

// kill is one round of SIGKILL.
func (t *tree) kill() {
	t.report(t.scope.Kill(t.server))
	t.lookAgain()
}

// report notes which process was signalled, and logs at debug level why.
func (t *tree) report(sent []teardown.Sent) {
	t.toll.add(sent, t.started)
	for _, x := range sent {
		t.log.Debug().Int("pid", x.To.PID).Str("comm", x.To.Comm).Str("signal", unix.SignalName(x.Sig)).Str("cause", string(t.cause)).
			AnErr("error", x.Err).Msg("signalled")
	}
}

// remains are what is left of a tree that is over.
type remains struct {
	survivors []teardown.Survivor
	kept      []proc.Stat
	removed   keeper.Removal
	// oomKills is how many of its processes were killed because memory ran out.
	oomKills uint64
	// unseen says that processes are left and cannot be listed.
	unseen bool
	leaked bool
	leaf   *cgroup.Leaf // nil once it is removed
	// began is when the teardown began; zero if there was none.
	began time.Time
	// ended counts the processes that were ended, killed those of them that took SIGKILL, and names are the first commands
	// beside the server. words say that in a line; "" if only the server was ended, or nothing.
	ended, killed int
	names         []string
	words         string
}

// close releases all that belongs to the tree.
func (t *tree) close() remains {
	r := remains{began: t.machine.Began}
	if !t.clear {
		r.survivors = t.scope.Survivors(func() (members []proc.Stat) {
			members, r.kept, _ = t.scope.Members()
			return members
		})
	}
	r.removed = t.closeEngine(len(r.kept) > 0)
	r.unseen = len(r.survivors) == 0 && t.unseen()
	r.leaked = len(r.survivors) > 0 || r.unseen || r.removed.Err != nil
	if t.scope.Leaf != nil {
		r.oomKills = t.scope.Leaf.OOMKills()
	}
	r.leaf = t.removeLeaf(r.kept)
	if t.server > 0 {
		// The server itself did not die, so its code is not known.
		t.code = ExitFailure
	}
	r.ended, r.killed = t.toll.count(r.survivors)
	r.names, r.words = t.toll.names, t.toll.words(r.ended, r.killed, t.started)
	return r
}

// unseen reports whether children are left that are not listed (no /proc, hidepid, no descriptor).
func (t *tree) unseen() bool {
	if t.clear {
		return false
	}
	left, _ := proc.Reap(func(int, unix.WaitStatus) {})
	return left && !t.explained()
}

// removeTries bounds the wait for the kernel to let go of a leaf, in milliseconds.
const removeTries = 50

// removeLeaf removes the tree's cgroup; kept processes move to the parent first. It returns a leaf that cannot be removed.
func (t *tree) removeLeaf(kept []proc.Stat) *cgroup.Leaf {
	leaf := t.scope.Leaf
	if leaf == nil {
		return nil
	}
	teardown.Expel(leaf, kept, func() (again []proc.Stat) {
		_, again, _ = t.scope.Members()
		return again
	})
	if err := leaf.RemoveSoon(removeTries); err != nil {
		t.log.Warn().Err(err).Msg("cgroup not removed")
		return leaf
	}
	leaf.Close()
	t.record.Cgroup = ""
	return nil
}
