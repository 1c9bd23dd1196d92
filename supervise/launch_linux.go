package supervise

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/proc"
)

// startTree prepares the containment and starts the server. When that fails there is a tree without any process.
func (s *Session) startTree(path string) error {
	t := &tree{scope: s.scope, code: ExitFailure}
	t.scope.Helpers = s.helpers
	t.machine.Grace = s.opts.grace()
	s.tree = t
	err := s.contain()
	if err == nil {
		s.openEngine()
		s.reserve()
		err = s.launch(path)
	}
	if err != nil {
		t.clear, t.code = true, startCode(err)
	}
	return err
}

// launch starts the server.
func (s *Session) launch(path string) error {
	t := s.tree
	child := proc.Child{
		Path:           path,
		Argv:           s.opts.Command,
		Env:            s.environ(),
		Group:          s.hand.Group,
		DiesWithThread: true,
		CgroupFD:       t.scope.Leaf.FD(),
		CgroupProcs:    -1,
		Inherited:      s.inherited,
		Until:          s.polled.fds,
	}
	if !s.hand.SharesGroup() {
		// In our group, a signal to the group would hit the server too. As leader of one it could not call setsid(2).
		group, release, err := proc.EmptyGroup()
		if child.Group, child.NewGroup = group, err != nil; err == nil {
			defer release()
			t.scope.Group = group
		}
	}
	if s.hib != nil {
		done, err := s.hib.relay.Connect(&child)
		if err != nil {
			return fmt.Errorf("make the server's pipes: %w", err)
		}
		defer done()
	}
	pid, err := s.spawn(child)
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	t.server, t.scope.Server = pid, pid
	s.postLetter(letter{server: s.identity(pid), leaf: t.scope.Leaf})
	s.writeRecord(s.state())
	return nil
}

// contain makes the cgroup leaf.
func (s *Session) contain() error {
	if s.opts.Cgroup == CgroupOff {
		return nil
	}
	if s.leaf != nil {
		s.tree.scope.Leaf, s.leaf = s.leaf, nil
		return nil
	}
	dir, err := cgroup.Current()
	if err == nil {
		s.tree.scope.Leaf, err = cgroup.Create(dir, leafName(s.hand.ID))
	}
	if err == nil {
		// Its end must not depend on what can be opened by then.
		s.tree.scope.Leaf.Hold()
		s.record.Cgroup = s.tree.scope.Leaf.Dir
		return nil
	}
	if s.opts.Cgroup == CgroupRequire {
		return fmt.Errorf("%w: %w", errRequired, err)
	}
	s.degrade(err)
	return nil
}

// errRequired says that the cgroup that the user requires cannot be made.
var errRequired = errors.New("--cgroup=require")

// degrade reports once that the containment is weaker than it could be.
func (s *Session) degrade(why error) {
	if s.degraded {
		return
	}
	s.degraded = true
	s.log.Debug().Str("why", why.Error()).Msg("containment degraded")
}

// leafName is the name of a session's cgroup.
func leafName(id string) string { return cgroup.Prefix + id }

// spawn starts the server in its leaf. It is born there by clone3. Where that is refused (kernels before 5.7, seccomp
// filters of container engines) or would be fatal (cgroup.Leaf.FD), it moves itself there before it executes anything.
func (s *Session) spawn(c proc.Child) (int, error) {
	leaf := s.tree.scope.Leaf
	if c.CgroupFD >= 0 || leaf == nil {
		pid, err := proc.Start(c)
		if err == nil || leaf == nil {
			return pid, err
		}
	}
	c.CgroupFD = -1
	var pid int
	procs, err := leaf.OpenProcs()
	if err == nil {
		c.CgroupProcs = procs
		pid, err = proc.Start(c)
		_ = unix.Close(procs)
	}
	if err == nil {
		return pid, nil
	}
	// Refused as well, or the command itself cannot be executed: the last attempt tells which.
	s.dropLeaf()
	if s.opts.Cgroup == CgroupRequire {
		return 0, fmt.Errorf("%w: %w", errRequired, err)
	}
	c.CgroupProcs = -1
	pid, lastErr := proc.Start(c)
	if lastErr == nil {
		s.degrade(err)
	}
	return pid, lastErr
}

func (s *Session) dropLeaf() {
	leaf := s.tree.scope.Leaf
	s.tree.scope.Leaf = nil
	defer leaf.Close()
	if err := leaf.Remove(); err != nil {
		s.leafLeft = true
		s.log.Warn().Err(err).Msg("cgroup not removed")
		return
	}
	s.record.Cgroup = ""
}

func searchPath() string {
	if p, ok := os.LookupEnv("PATH"); ok {
		return p
	}
	return "/bin:/usr/bin"
}

func startCode(err error) int {
	switch {
	case errors.Is(err, errRequired):
		return ExitFailure
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return ExitNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM):
		return ExitNotExecutable
	}
	return ExitFailure
}
