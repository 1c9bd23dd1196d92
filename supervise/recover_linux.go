package supervise

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"mcp-tether/argv"
	"mcp-tether/cgroup"
	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// Recover ends what a killed supervisor left. It runs in the anchor's process: every orphan of the session has fallen to
// it, and the cgroup leaf is known by the session's id alone. It returns the server's exit code if the server could be
// waited for, else the supervisor's.
func Recover(opts Options, hand argv.Handover) (int, error) {
	hand.Anchor, hand.ParentFD = 0, -1
	s, err := newSession(opts, hand)
	if err != nil {
		return ExitFailure, err
	}
	defer s.sink.flush()
	t := &tree{scope: s.scope, code: hand.Status}
	t.machine.Grace = opts.grace()
	s.tree = t
	dir, recorded := s.findRecord()
	s.findLeaf()
	left, _ := proc.Reap(func(pid int, ws unix.WaitStatus) { t.noteServer(pid, ws) })
	if dir != "" && !recorded && t.scope.Leaf == nil && (!left || t.onlyOthers()) {
		// The supervisor had closed the session; the exit code that looked like a crash was the server's own.
		return hand.Status, nil
	}
	s.takeRecord(dir)
	if t.engine = s.findEngine(dir); t.engine != nil {
		t.scope.Helpers = t.engine.running
	}
	s.end(causeSupervisor)
	if t.empty(left) {
		s.step(teardown.TreeEmpty, noCause)
	}
	s.loop()
	return s.finish(), nil
}

// noteServer keeps the server's code: it is a child of ours now.
func (t *tree) noteServer(pid int, ws unix.WaitStatus) {
	if pid == t.server {
		t.server, t.code = 0, proc.ExitCode(ws)
	}
}

// findLeaf opens the leaf that the supervisor made, which the record names; without one, below the cgroup we are in.
func (s *Session) findLeaf() {
	dir := s.record.Cgroup
	if path.Base(dir) != leafName(s.hand.ID) {
		own, err := cgroup.Current()
		if err != nil {
			return
		}
		dir = own + "/" + leafName(s.hand.ID)
	}
	if leaf, err := cgroup.Open(dir); err == nil {
		s.tree.scope.Leaf = leaf
	}
}

// findRecord reads what the supervisor had written down. dir is "" when no record can be looked for.
func (s *Session) findRecord() (dir string, recorded bool) {
	dir, err := session.Dir(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return "", false
	}
	r, err := session.Read(dir, s.hand.ID)
	if err != nil {
		// The lock is made first and removed last.
		_, lockErr := session.Held(dir, s.hand.ID)
		return dir, !errors.Is(err, unix.ENOENT) || !errors.Is(lockErr, session.ErrNoLock)
	}
	s.record = r
	// A child of ours is told by waiting for it. Until then its pid is its own.
	if st, err := s.reader.Stat(r.Server.PID); err == nil && st.ID == r.Server && st.PPID == os.Getpid() {
		s.tree.server, s.tree.scope.Server = r.Server.PID, r.Server.PID
	}
	return dir, true
}

// takeRecord takes over the lease, so that the record goes with the session.
func (s *Session) takeRecord(dir string) {
	if dir == "" {
		return
	}
	lease, err := session.Take(dir, s.hand.ID)
	if err != nil {
		s.log.Warn().Err(err).Msg("session record not taken over")
		return
	}
	s.lease = lease
}
