package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

// startSweep ends this user's dead sessions in a process of its own. It may take as long as a teardown, and it may fail, for
// example where no more processes can be started. Neither affects this session.
func (s *Session) startSweep() {
	if s.opts.HasDead == nil || !s.opts.HasDead() {
		return
	}
	null, err := proc.OpenNull()
	if err != nil {
		return
	}
	defer unix.Close(null)
	pid, err := proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.SweepArgs(os.Args[0]), Env: os.Environ(), NewSession: true, Stdin: null, Stdout: null, Stderr: null,
	})
	if err != nil {
		s.log.Debug().Err(err).Msg("dead sessions not swept")
		return
	}
	s.sweeper = s.identity(pid)
	s.tree.members.Foreign = append(s.tree.members.Foreign, s.sweeper)
	if s.page != nil {
		_ = s.passOn()
	}
}

// sweepDies is how long a sweep may take to die of SIGKILL. A tracer, or a file system that hangs, may hold it for ever.
const sweepDies = time.Second

// endSweep ends the sweep when the session is over.
func (c *common) endSweep() {
	if c.sweeper.Zero() {
		return
	}
	if err := c.reader.Signal(c.sweeper, unix.SIGKILL); err == nil {
		awaitEnd(c.sweeper, time.Now().Add(sweepDies))
		_, _ = proc.Reap(func(int, unix.WaitStatus) {}) // It is a child, or has fallen to us.
	}
	c.sweeper = proc.ID{}
}
