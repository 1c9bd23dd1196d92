package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends the signals to exactly the process id, or to none. It opens a pidfd, compares the start time and asks the
// pidfd once more whether its process still runs: only then did the stat that was read belong to it. The error is ErrGone
// when the process has ended or its pid was reused; EPERM when it belongs to another user; anything else means unknown,
// and nothing was sent.
//
// Kernels before 5.3 have no pidfd, and a process at its limit of open files gets none: there a check of the start time
// directly before kill(2) is all there is.
func (r *Reader) Signal(id ID, sigs ...syscall.Signal) error {
	if id.PID <= 1 || id.PID == os.Getpid() {
		return fmt.Errorf("signal %d: refused: init and the supervisor itself are never a member", id.PID)
	}
	fd, err := OpenPidfd(id.PID)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return r.signalByPID(id, sigs)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	s, err := r.Stat(id.PID)
	if err != nil {
		return err
	}
	if s.Start != id.Start {
		return fmt.Errorf("signal %v: pid belongs to another process now: %w", id, ErrGone)
	}
	if exited(fd) {
		return fmt.Errorf("signal %v: %w", id, ErrGone)
	}
	for _, sig := range sigs {
		err := unix.PidfdSendSignal(fd, sig, nil, 0)
		if err == unix.ENOSYS {
			return r.signalByPID(id, sigs)
		}
		if err != nil {
			return fmt.Errorf("signal %v: %w", id, vanished(err))
		}
	}
	return nil
}

func (r *Reader) signalByPID(id ID, sigs []syscall.Signal) error {
	s, err := r.Stat(id.PID)
	if err != nil {
		return err
	}
	if s.Start != id.Start {
		return fmt.Errorf("signal %v: pid belongs to another process now: %w", id, ErrGone)
	}
	for _, sig := range sigs {
		if err := unix.Kill(id.PID, sig); err != nil {
			return fmt.Errorf("signal %v: %w", id, vanished(err))
		}
	}
	return nil
}

// SignalChild signals a direct child that the caller has not waited for yet. Until then the kernel does not reuse its pid,
// so no further check is needed.
func SignalChild(pid int, sig syscall.Signal) error {
	if pid <= 1 {
		return fmt.Errorf("signal child %d: refused: not a child", pid)
	}
	if err := unix.Kill(pid, sig); err != nil {
		return fmt.Errorf("signal child %d: %w", pid, vanished(err))
	}
	return nil
}
