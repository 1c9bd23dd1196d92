package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// tree is the server and all that it started.
type tree struct {
	*common
	machine teardown.Machine
	members teardown.Membership
	killer  teardown.Killer
	engine  *keeper.Keeper // nil where containers are not looked after
	// server is the child's pid until it is waited for, then 0. started is its pid for good.
	server, started int
	// clear says that the last look found nothing left, not even something to keep.
	clear bool
	// retryAt is when to look again during a teardown; zero when only events count.
	retryAt time.Time
	retry   time.Duration
	tally   tally
	// doomed are the first ones that were about to be killed.
	doomed []session.Fate
}

// mayGoOn reports whether the server was not asked to end yet.
func (t *tree) mayGoOn() bool { return t.machine.State <= teardown.Draining }

// due is when the tree has something to do without any event; zero when never.
func (t *tree) due() time.Time { return proc.Earliest(t.machine.Deadline, t.retryAt) }

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

// noteServer keeps the exit code of the server, when that has been waited for.
func (t *tree) noteServer(pid int, ws unix.WaitStatus) {
	if pid == t.server {
		t.server, t.code = 0, proc.ExitCode(ws)
	}
}

// onChildren acts on the ends of children that have been waited for. exited says that the server was one of them, left that there are
// more children, and look that it is time to look what these are. The many ends of a forking tree must not make us look all the time.
func (t *tree) onChildren(exited, left, look bool) {
	switch {
	case t.server == 0 && (look || !left) && t.empty(left):
		t.clear = !left
		t.step(teardown.TreeEmpty)
	case exited:
		t.step(teardown.ServerExited)
	}
}

// empty reports whether no member is left. Without children nothing is below us, but the leaf may still hold a process that
// was moved there from outside, and the terminal session one that has fallen to init. With children, all of them may be processes to
// keep.
func (t *tree) empty(childrenLeft bool) bool {
	if childrenLeft {
		return t.onlyOthers()
	}
	if leaf := t.members.Leaf; leaf != nil {
		if populated, err := leaf.Populated(); populated || err != nil {
			return false
		}
	}
	if t.members.Session.Zero() {
		return true
	}
	end, _, err := t.members.Members()
	return len(end) == 0 && err == nil
}

// onlyOthers reports whether all that is left is kept on purpose, or was there before. It reads the process table, so it is
// called only at the end.
func (t *tree) onlyOthers() bool {
	// A process that is reparented while the table is read may be missed once.
	for range 2 {
		if !t.explained() {
			return false
		}
	}
	return true
}

// explained reports whether a look finds no member, and something else that explains why a child is left: it is kept on purpose, or
// not the session's.
func (t *tree) explained() bool {
	members, kept, err := t.members.Members()
	if t.members.Used() && t.mayGo() {
		return false
	}
	return err == nil && len(members) == 0 && !t.members.Unseen() && len(kept)+t.others() > 0
}

// mayGo reports whether what uses a member may be about to end, as another session of the gateway that is gone. Nobody waits for us.
func (t *tree) mayGo() bool {
	return t.machine.State < teardown.Killing && t.reader.Life(t.record.Gateway) == proc.Dead
}

// others counts the processes that do not belong to the session: those that the last look has found, and those that it
// cannot see (hidepid). One that has ended explains nothing that is left.
func (t *tree) others() int {
	n := t.members.Strangers()
	for _, id := range t.members.Foreign {
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
func (t *tree) terminate() { t.report(t.killer.Ask()) }

// kill is one round of SIGKILL.
func (t *tree) kill() { t.report(t.killer.Kill()) }

// report notes which process was signalled, and logs at debug level why. What could not be looked at is looked for again.
func (t *tree) report(sent []teardown.Sent, _ error) {
	t.lookAgain()
	t.tally.add(sent, t.started)
	for _, x := range sent {
		t.log.Debug().Int("pid", x.To.PID).Str("comm", x.To.Comm).Str("signal", unix.SignalName(x.Sig)).Str("cause", string(t.cause)).
			AnErr("error", x.Err).Msg("signalled")
	}
}

// remains are what is left of a tree that is over, and what became of the rest.
type remains struct {
	session.Outcome
	survivors []teardown.Survivor
	kept      []proc.Stat
	removed   keeper.Removal
	// unseen says that processes are left and cannot be listed.
	unseen bool
	leaked bool
	// began is when the teardown began; zero if there was none.
	began time.Time
	// words say in a line what was ended; "" if only the server was, or nothing.
	words string
	// belongings are the kept processes to be named, and people says that something belongs to people.
	belongings []session.Fate
	people     bool
}

// close releases all that belongs to the tree.
func (t *tree) close() remains {
	r := remains{began: t.machine.Began}
	t.members.Settle()
	if !t.clear {
		r.survivors, r.kept, _ = t.killer.Survivors()
	}
	r.belongings, r.people = t.belongings(r.kept)
	r.removed = t.closeEngine(len(r.kept) > 0)
	r.unseen = len(r.survivors) == 0 && t.unseen()
	r.leaked = len(r.survivors) > 0 || r.unseen || r.removed.Err != nil
	if t.members.Leaf != nil {
		r.OOMKills = t.members.Leaf.OOMKills()
	}
	t.removeLeaf()
	if t.server > 0 {
		// The server itself did not die, so its code is not known.
		t.code = ExitFailure
	}
	r.Ended, r.Killed = t.tally.count(r.survivors)
	r.Names, r.words = t.tally.names, t.tally.words(r.Ended, r.Killed, t.started, wordsOfKept(r.belongings))
	r.Processes = t.fates(&r)
	r.Containers, r.Kept, r.Left = r.removed.Count, len(r.kept), r.left()
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

// removeLeaf removes the tree's cgroup. One that stays is in the record.
func (t *tree) removeLeaf() {
	leaf := t.members.Leaf
	if leaf == nil {
		return
	}
	if err := t.killer.RemoveLeaf(leaf, removeTries); err != nil {
		t.log.Warn().Err(err).Msg("cgroup not removed")
		t.leafLeft = true
	} else {
		t.record.Cgroup = ""
	}
	leaf.Close()
	t.members.Leaf = nil
}
