package supervise

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

// startSweep ends this user's dead sessions in a process of its own. It may take as long as a teardown, and it may fail, for
// example where no more processes can be started. Neither affects this session.
func (c *common) startSweep() {
	if c.opts.HasDead == nil || !c.opts.HasDead() {
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
		c.log.Debug().Err(err).Msg("dead sessions not swept")
		return
	}
	c.sweeper = c.identity(pid)
	if c.hand.page != nil {
		_ = c.passOn()
	}
}

// helpers are the processes that we have started for ourselves, which are no members of the session.
func (t *tree) helpers() []proc.ID {
	var out []proc.ID
	if !t.sweeper.Zero() {
		out = append(slices.Clip(out), t.sweeper)
	}
	if t.members.Root != os.Getpid() {
		out = append(slices.Clip(out), t.identity(os.Getpid())) // We are below the root ourselves.
	}
	return out
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
