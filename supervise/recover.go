package supervise

import (
	"errors"
	"os"
	"path"
	"runtime"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/eventlog"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// errNoSupervisor says that a supervisor ended before it had started anything.
var errNoSupervisor = errors.New("the supervisor could not start: nothing was started")

// Recover ends what a killed supervisor left. It runs in the anchor's process, to which every orphan of the session was
// reparented. It returns the server's exit code if the server could be waited for, else the supervisor's.
//
// No step may be fatal. Recover works without the log file, the record or the engine, and the control files of the leaf
// are open already.
func Recover(opts Options, o Orphan) (int, error) {
	// With several processors the scheduler's monitor hands each of them to another thread while we wait. On a busy
	// machine no thread may be idle. Setting this earlier, while the anchor watches, would cost 0.2 MB.
	runtime.GOMAXPROCS(1)
	hand := o.hand
	hand.Anchor, hand.ParentFD, hand.Mailbox = 0, -1, -1
	s := newSession(opts, hand)
	s.openLogAnyway()
	s.polled.add(signals, o.signals, unix.POLLIN)
	s.sigfd = o.signals
	t := s.newTree()
	t.scope.Since = o.began
	s.code = o.status
	dir, recorded := s.findRecord()
	t.scope.Spare(s.record.Kept)
	t.findServer(o.letter)
	t.findLeaf(o.letter)
	left, _ := proc.Reap(func(pid int, ws unix.WaitStatus) { t.noteServer(pid, ws) })
	if dir != nil && !recorded && t.scope.Leaf == nil && (!left || t.onlyOthers()) {
		// The supervisor had closed the session, or had not begun it.
		return o.verdict()
	}
	held := s.takeRecord(dir, 1)
	if s.findEngine(dir) != nil || s.hasNotes(dir) {
		// It reads the record itself. Where it finds no engine it fails, and the notes stay for reap.
		s.remover = o.args
	}
	s.end(session.CauseSupervisor)
	// Children are waited for once more: a server that has ended meanwhile is no member, but its exit code has yet to be
	// read.
	s.onChildren(true)
	s.loop()
	if held != nil {
		// The lock was held by a child of the supervisor between fork and exec, or by a process that checked whether the
		// session lives. The child is gone with the tree.
		held = s.takeRecord(dir, takeTries)
	}
	if held != nil {
		s.log.Warn().Err(held).Msg("session record not taken over")
	}
	code := s.finish()
	if o.letter == nil && o.status == crashed {
		return o.verdict()
	}
	return code, nil
}

// verdict is the exit code when nothing of the session was found.
func (o Orphan) verdict() (int, error) {
	if o.letter == nil && o.status == crashed {
		return ExitFailure, errNoSupervisor
	}
	return o.status, nil
}

// openLogAnyway opens the log, or else logs to standard error.
func (c *common) openLogAnyway() {
	c.log = eventlog.OpenAnyway(c.opts.Log, c.hand.ID, c.opts.Name)
}

// findServer takes the server from the last letter that has come from the supervisor, else from the record: a later letter
// may be lost. It must be a child of ours: the pid of a child cannot be reused before we wait for it.
func (t *tree) findServer(l *letter) {
	if l == nil || !t.takeServer(l.server) {
		t.takeServer(t.record.Server)
	}
}

// takeServer takes a process for the server, if it is a child of ours.
func (t *tree) takeServer(id proc.ID) bool {
	st, err := t.reader.Stat(id.PID)
	if err != nil || st.ID != id || st.PPID != os.Getpid() {
		return false
	}
	t.server, t.scope.Server, t.record.Server = id.PID, id.PID, id
	return true
}

// findLeaf takes the leaf from the last letter that has come from the supervisor. If that is gone, or there is none, it goes by
// the record; without one, it looks below the cgroup that we are in.
func (t *tree) findLeaf(l *letter) {
	if l != nil && l.leaf != nil {
		if !l.leaf.Gone() {
			t.scope.Leaf, t.record.Cgroup = l.leaf, l.leaf.Dir
			return
		}
		l.forget() // The one that is there may need its descriptors.
		l.leaf = nil
	}
	if t.openLeaf() != nil {
		_ = t.openLeaf() // A transient error must not lose the leaf.
	}
}

// openLeaf opens the leaf that the record names, or the one of this session below our own cgroup.
func (t *tree) openLeaf() error {
	dir := t.record.Cgroup
	if path.Base(dir) != leafName(t.hand.ID) {
		own, err := cgroup.Current()
		if err != nil {
			return err
		}
		dir = own + "/" + leafName(t.hand.ID)
	}
	leaf, err := cgroup.Open(dir)
	if err == nil {
		t.scope.Leaf, t.record.Cgroup = leaf, dir
	}
	return err
}

// findRecord reads what the supervisor had written down. dir is nil when no record can be looked for.
func (c *common) findRecord() (dir *session.Directory, recorded bool) {
	dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return nil, false
	}
	r, err := dir.Read(c.hand.ID)
	if err != nil {
		var errno unix.Errno
		c.unread = errors.As(err, &errno) && errno != unix.ENOENT
		// The lock is made first and removed last.
		_, lockErr := dir.Held(c.hand.ID)
		return dir, !errors.Is(err, unix.ENOENT) || !errors.Is(lockErr, session.ErrNoLock)
	}
	c.record = r
	return dir, true
}

// takeTries is how often the lease is tried at the end. Each attempt waits a moment (session.Take): a second in all.
const takeTries = 20

// takeRecord takes over the lease, so that the record goes with the session.
func (c *common) takeRecord(dir *session.Directory, tries int) error {
	if dir == nil {
		return nil
	}
	err := session.ErrHeld
	for n := 0; n < tries && errors.Is(err, session.ErrHeld); n++ {
		c.lease, err = dir.Take(c.hand.ID)
	}
	return err
}
