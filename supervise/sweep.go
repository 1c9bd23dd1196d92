package supervise

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

// sweepDelay is how long after the server's start to look for dead sessions, so that the start is not delayed.
const sweepDelay = time.Second

// sweep ends this user's dead sessions in a process of its own. It may take as long as a teardown, and it may fail, for
// example where no more processes can be started. Neither affects this session. A copy of us adopts what the sweep leaves: a
// command that reaches an engine may leave a daemon, which is not the session's.
func (c *common) sweep() {
	if !c.opts.HasDead() {
		return
	}
	null, err := proc.OpenNull()
	if err != nil {
		return
	}
	defer unix.Close(null)
	pid, err := proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.SweepArgs(os.Args[0]), Env: proc.WithOneProcessor(c.ownEnviron()), NewSession: true, Adopts: true,
		Stdin: null, Stdout: null, Stderr: null, CgroupFD: -1, CgroupProcs: -1, Inherited: c.inherited, Until: c.polled.fds,
	})
	if err != nil {
		c.log.Debug().Err(err).Msg("dead sessions not swept")
		return
	}
	c.sweeper = c.identity(pid)
}

// helpers are the processes that we have started for ourselves, which are no members of the session.
func (t *tree) helpers() []proc.ID {
	var out []proc.ID
	if t.engine != nil {
		out = t.engine.Helpers()
	}
	if !t.sweeper.Zero() {
		out = append(slices.Clip(out), t.sweeper)
	}
	return out
}

// endSweep ends the sweep when the session is over.
func (c *common) endSweep() {
	if c.sweeper.Zero() {
		return
	}
	if err := c.reader.Signal(c.sweeper, unix.SIGKILL); err == nil {
		proc.KillGroup(c.sweeper.PID)
	}
	c.sweeper = proc.ID{}
}
