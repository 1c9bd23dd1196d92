package supervise

import (
	"errors"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// Recover ends what a killed supervisor left. It runs in the anchor's process: every orphan of the session has fallen to
// it, and the cgroup leaf is known by the session's id alone. It returns the server's exit code if the server could be
// waited for, else the supervisor's.
func Recover(opts Options, hand Handover) (int, error) {
	hand.Anchor, hand.ParentFD = 0, -1
	s, err := newSupervisor(opts, hand)
	if err != nil {
		return ExitFailure, err
	}
	defer s.sink.flush()
	s.code = hand.Status
	clean := s.findRecord()
	s.findLeaf()
	left, _ := proc.Reap(func(pid int, ws unix.WaitStatus) { s.noteServer(pid, ws) })
	if clean && !left {
		// The supervisor had closed the session; the exit code that looked like a crash was the server's own.
		return hand.Status, nil
	}
	s.end(causeSupervisor)
	if s.empty(left) {
		s.step(teardown.TreeEmpty, "")
	}
	s.loop()
	return s.finish(), nil
}

// noteServer keeps the server's code: it is a child of ours now.
func (s *supervisor) noteServer(pid int, ws unix.WaitStatus) {
	if pid == s.server {
		s.server, s.code = 0, proc.ExitCode(ws)
	}
}

// findLeaf opens the leaf that the supervisor made, which the record names; without one, below the cgroup we are in.
func (s *supervisor) findLeaf() {
	dir := s.record.Cgroup
	if path.Base(dir) != leafName(s.hand.ID) {
		own, err := cgroup.OwnDir()
		if err != nil {
			return
		}
		dir = own + "/" + leafName(s.hand.ID)
	}
	if leaf, err := cgroup.Open(dir); err == nil {
		s.scope.Leaf = leaf
	}
}

// findRecord takes over the session's record, and reports whether there is none any more.
func (s *supervisor) findRecord() (gone bool) {
	dir, err := session.Dir(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return false
	}
	r, err := session.Read(dir, s.hand.ID)
	if errors.Is(err, unix.ENOENT) {
		gone = true
	}
	if err == nil {
		s.record = r
		// Unreaped, or somebody else's: a child of ours is told by waiting for it.
		s.server = r.Server.PID
		if st, serr := s.reader.Stat(s.server); serr != nil || st.ID != r.Server || st.PPID != os.Getpid() {
			s.server = 0
		}
	}
	s.lease, err = session.Take(dir, s.hand.ID)
	if err != nil {
		s.log.Warn().Err(err).Msg("session record not taken over")
	}
	s.started = time.Now()
	return gone
}
