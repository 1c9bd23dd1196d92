package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes orphaned descendants fall to this process instead of init (prctl(2), Linux 3.4). The role
// survives exec and ends with the process.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// Reap waits for every child that has ended and calls each for it. It reports whether any child, living or dead, is left.
// For a subreaper "none left" is exact: it has no descendant any more.
func Reap(each func(pid int, ws unix.WaitStatus)) (left bool, err error) {
	for {
		var ws unix.WaitStatus
		// __WALL: also children made by clone(2) with another exit signal than SIGCHLD.
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return false, nil
		case err != nil:
			return true, fmt.Errorf("wait for children: %w", err)
		case pid == 0:
			return true, nil
		}
		each(pid, ws)
	}
}

// Wait waits for the end of a child.
func Wait(pid int) (ws unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(pid, &ws, unix.WALL, nil); err == nil {
			return ws, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return ws, fmt.Errorf("wait for child %d: %w", pid, err)
		}
	}
}

// HasExited reports whether the child has ended. It leaves the child to be reaped, so its pid is not reused.
func HasExited(pid int) (bool, error) {
	// The answer is in the info: with WNOHANG waitid succeeds either way, and si_signo (waitid(2)) stays 0.
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err == nil {
			return info.Signo != 0, nil
		}
		if err != unix.EINTR {
			return false, fmt.Errorf("wait for child %d: %w", pid, err)
		}
	}
}

// AwaitExit waits until the child has ended, or is none. It leaves the child to be reaped, so its pid is not reused.
func AwaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil) == unix.EINTR {
	}
}

// HasStopped reports whether the child is stopped by a signal. The answer is not consumed: it can be asked again.
func HasStopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == nil && info.Signo != 0
}

// ExitCode turns a wait status into a shell's exit code: the code itself, or 128+n after signal n.
func ExitCode(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
