package supervise

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/argv"
	"mcp-tether/proc"
)

// sweepDelay is how long after the server's start to look for dead sessions: off its path.
const sweepDelay = time.Second

// sweep ends this user's dead sessions in a process of its own. It may take as long as a teardown, and it may fail, for
// example where no more processes can be started. Neither affects this session.
func (s *Session) sweep() {
	s.sweepAt = time.Time{}
	if s.cause != noCause || !s.opts.HasDead() {
		return
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(null)
	pid, err := proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.SweepArgs(os.Args[0]), Env: proc.WithOneProcessor(s.ownEnviron()), NewSession: true,
		Stdin: null, Stdout: null, Stderr: null, CgroupFD: -1, CgroupProcs: -1, Inherited: s.inherited, Until: s.polled.fds,
	})
	if err != nil {
		s.log.Debug().Err(err).Msg("dead sessions not swept")
		return
	}
	s.sweeper = s.identity(pid)
}

// helpers are the processes that we have started for ourselves, which are no members of the session.
func (s *Session) helpers() []proc.ID {
	var out []proc.ID
	if s.tree != nil && s.tree.engine != nil {
		out = s.tree.engine.running()
	}
	if !s.sweeper.Zero() {
		out = append(slices.Clip(out), s.sweeper)
	}
	return out
}

// endSweep ends the sweep when the session is over.
func (s *Session) endSweep() {
	if s.sweeper.Zero() {
		return
	}
	if err := s.reader.Signal(s.sweeper, unix.SIGKILL); err == nil {
		_, _ = proc.Wait(s.sweeper.PID)
	}
	s.sweeper = proc.ID{}
}
