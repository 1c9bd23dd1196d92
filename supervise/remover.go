package supervise

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/proc"
)

// Removing containers takes threads. Where none can be had, the Go runtime aborts. An abort of a recovering anchor
// would leave all that it was about to end. So the anchor first ends the processes, for which it needs no thread. Then
// a separate process removes the containers. If that dies, reap has the record.

// Remove removes what a session has made in a container engine. It runs in the process that a recovering anchor has started
// for that, and tells the anchor through the mailbox when all is removed. It returns the exit code.
func Remove(opts Options, hand argv.Handover) int {
	s := newSession(opts, hand)
	s.openLogAnyway()
	dir, _ := s.findRecord()
	r := s.closeEngine(s.findEngine(dir))
	switch {
	case r.Err != nil, !r.Done:
		return ExitFailure
	case s.unread && s.hasNotes(dir):
		return ExitFailure // The record may name another engine.
	}
	s.postLetter(letter{closed: true, code: r.Count})
	return 0
}

// errNotRemoved says that the process that removes containers has ended, or was killed, before it was done.
var errNotRemoved = errors.New("the process that removes containers has failed")

// noTraceback makes the runtime say in one line that no thread can be had.
const noTraceback = "GOTRACEBACK=none"

// removeElsewhere starts a process that removes the containers, and waits for it.
func (c *common) removeElsewhere(args []string) keeper.Removal {
	ours, theirs := openMailbox()
	if ours < 0 {
		return c.notRemoved(errNotRemoved)
	}
	defer unix.Close(ours)
	keepOpen(theirs)
	pid, err := proc.Start(proc.Child{
		Path:       proc.SelfExe,
		Argv:       argv.SupervisorArgs(args, argv.Handover{ID: c.hand.ID, ParentFD: -1, Mailbox: theirs, Removes: true}),
		Env:        proc.WithOneProcessor(append([]string{noTraceback}, proc.Environ()...)),
		NewSession: true, CgroupFD: -1, CgroupProcs: -1, Inherited: c.inherited, Until: c.polled.fds,
	})
	_ = unix.Close(theirs)
	if err != nil {
		return c.notRemoved(fmt.Errorf("%w: %w", errNotRemoved, err))
	}
	last := awaitHangUp(ours, c.opts.longestRemoval()+margin)
	if last == nil {
		// The process is dead or late, or it has failed. If it has ended, the signal does nothing.
		_ = proc.SignalChild(pid, unix.SIGKILL)
		awaitHangUp(ours, killPatience)
	}
	if ended, err := proc.HasExited(pid); ended && err == nil {
		_, _ = proc.Wait(pid)
	}
	if last == nil || !last.closed {
		return c.notRemoved(errNotRemoved)
	}
	return keeper.Removal{Done: true, Count: last.code}
}

func (c *common) notRemoved(why error) keeper.Removal {
	r := keeper.Removal{Done: true, Err: why}
	c.reportLeft(r)
	return r
}

// awaitHangUp reads letters until no process has the other end of the mailbox any more, or the time is up. It returns the last
// one.
func awaitHangUp(mailbox int, limit time.Duration) (last *letter) {
	fds := []unix.PollFd{{Fd: int32(mailbox), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		left := max(time.Until(deadline), 0)
		n := proc.Poll(fds, left)
		if n > 0 {
			last = readLetters(mailbox, last)
		}
		if n > 0 && fds[0].Revents&unix.POLLHUP != 0 || left == 0 {
			return last
		}
	}
}
