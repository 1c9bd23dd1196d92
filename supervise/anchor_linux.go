package supervise

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/argv"
	"mcp-tether/proc"
	"mcp-tether/session"
)

// crashed is the exit code of a Go program that panicked.
const crashed = 2

// Anchor is the process that the gateway spawned. It starts the supervisor with the same command line, passes signals
// on, and returns the supervisor's exit code. When the supervisor was killed instead, the handover for Recover is not
// nil: every orphan of the session has fallen to this process. Call it on the locked main thread.
func Anchor(args []string) (int, *argv.Handover, error) {
	inherited := proc.ReadAtExec()
	h, err := Direct()
	if err != nil {
		return ExitFailure, nil, err
	}
	h.Anchor = os.Getpid()
	if err := proc.BecomeSubreaper(); err != nil {
		return ExitFailure, nil, err
	}
	if h.Signals, err = listen(inherited, h.Terminal); err != nil {
		return ExitFailure, nil, err
	}
	keepOpen(h.ParentFD)
	env, restore := supervisorEnv(os.Environ())
	h.Restore = restore
	supervisor, err := proc.Start(proc.Child{
		Path:        proc.SelfExe,
		Argv:        argv.SupervisorArgs(args, h),
		Env:         env,
		NewSession:  !h.Terminal,
		CgroupFD:    -1,
		CgroupProcs: -1,
		Inherited:   inherited,
	})
	if err != nil {
		return ExitFailure, nil, fmt.Errorf("start the supervisor from %s: %w", proc.SelfExe, err)
	}
	letGo(h)
	pauseGC()
	if err := passSignals(h, supervisor); err != nil {
		return ExitFailure, nil, err
	}
	return conclude(supervisor, h)
}

// Direct is the handover to a process without an anchor. It opens the pidfd of the parent and asks for the parent once
// more: if it has changed, the gateway died before it could be watched.
func Direct() (argv.Handover, error) {
	h := argv.Handover{ParentFD: -1, Parent: os.Getppid()}
	if h.Parent > 0 {
		if fd, err := proc.OpenPidfd(h.Parent); err == nil {
			h.ParentFD = fd
		}
		if os.Getppid() != h.Parent {
			return h, fmt.Errorf("gateway (pid %d) ended while its session started: nothing was started", h.Parent)
		}
	}
	h.ID, h.Terminal, h.Foreign = session.NewID(), proc.OnTerminal(), foreignChildren()
	return h, nil
}

// foreignChildren lists the children that this process has from before: a shell may have started some and then executed
// mcp-tether in its own place.
func foreignChildren() []proc.ID {
	if !proc.HasChildren() {
		return nil
	}
	var r proc.Reader
	all, _ := r.Descendants(os.Getpid())
	var out []proc.ID
	for _, p := range all {
		if p.PPID == os.Getpid() {
			out = append(out, p.ID)
		}
	}
	return out
}

// keepOpen lets the next exec inherit fd.
func keepOpen(fd int) {
	if fd >= 0 {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
}

// letGo closes what the supervisor has now: the gateway must see end of file as soon as nobody else holds its pipes.
func letGo(h argv.Handover) {
	if h.ParentFD >= 0 {
		_ = unix.Close(h.ParentFD)
	}
	if !h.Terminal {
		dropStreams()
	}
}

// dropStreams puts /dev/null in place of standard input and output; standard error stays for what there is to say.
func dropStreams() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = unix.Dup3(null, 0, 0)
	_ = unix.Dup3(null, 1, 0)
	_ = unix.Close(null)
}

// childPoll is how often to look for the supervisor's end without a pidfd (before Linux 5.3), in milliseconds.
const childPoll = 100

// passSignals hands signals to the supervisor until that has ended. It is left to be reaped, so its pid stays its own.
func passSignals(h argv.Handover, supervisor int) error {
	fds, timeout := []int{h.Signals}, -1
	if fd, err := proc.OpenPidfd(supervisor); err == nil {
		fds = append(fds, fd)
	} else {
		timeout = childPoll
	}
	var got []proc.Caught
	for {
		if err := proc.AwaitInput(timeout, fds...); err != nil {
			return err
		}
		got = proc.ReadCaught(h.Signals, got[:0])
		for _, c := range got {
			if c.Signal != syscall.SIGCHLD && !shared(c, h.Terminal) {
				_ = proc.SignalChild(supervisor, c.Signal)
			}
		}
		if ended, err := proc.HasExited(supervisor); ended || err != nil {
			return err
		}
	}
}

func conclude(supervisor int, h argv.Handover) (int, *argv.Handover, error) {
	var ws unix.WaitStatus
	if _, err := unix.Wait4(supervisor, &ws, unix.WALL, nil); err != nil {
		return ExitFailure, nil, fmt.Errorf("read the end of the supervisor (pid %d): %w", supervisor, err)
	}
	h.Status = proc.ExitCode(ws)
	if ws.Signaled() || h.Status == crashed {
		return h.Status, &h, nil
	}
	return h.Status, nil, nil
}
