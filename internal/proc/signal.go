package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends the signals to exactly the process that id names, or to none. The error is ErrGone when the process has
// ended or its pid was reused, and EPERM when it belongs to another user. Any other error means unknown, and nothing
// was sent.
//
// It opens a pidfd, then reads the start time. Then it asks the pidfd whether its process still runs: only then was that start
// time its own. Where a filter of system calls forbids pidfds, the look directly before kill(2) is all there is.
func (r *Reader) Signal(id ID, sigs ...syscall.Signal) error {
	if id.PID <= 1 || id.PID == os.Getpid() {
		return fmt.Errorf("signal %d: refused: init and the supervisor itself are never a member", id.PID)
	}
	fd, err := OpenPidfd(id.PID)
	if errors.Is(err, unix.ENOSYS) {
		return r.signalByPID(id, sigs)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := r.still(id); err != nil {
		return err
	}
	if exited(fd) {
		return fmt.Errorf("signal %v: %w", id, ErrGone)
	}
	err = sendAll(id, sigs, func(sig syscall.Signal) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
	if errors.Is(err, unix.ENOSYS) {
		return r.signalByPID(id, sigs)
	}
	return err
}

// still says what keeps a pid from being that of the process that id names.
func (r *Reader) still(id ID) error {
	s, err := r.Stat(id.PID)
	if err == nil && s.Start != id.Start {
		err = fmt.Errorf("signal %v: pid belongs to another process now: %w", id, ErrGone)
	}
	return err
}

// sendAll sends one signal after the other. Whoever has ended by the first needs no second: its parent may have waited for it by then.
func sendAll(id ID, sigs []syscall.Signal, send func(syscall.Signal) error) error {
	for n, sig := range sigs {
		err := send(sig)
		if n > 0 && errors.Is(err, unix.ESRCH) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("signal %v: %w", id, vanished(err))
		}
	}
	return nil
}

// signalByPID refuses the number of a thread. Without a pidfd nothing else does: /proc shows a thread like a process, and
// kill(2) signals the whole process that it belongs to.
func (r *Reader) signalByPID(id ID, sigs []syscall.Signal) error {
	if err := unix.Tgkill(id.PID, id.PID, 0); err == unix.ESRCH {
		return vanished(err)
	}
	if err := r.still(id); err != nil {
		return err
	}
	return sendAll(id, sigs, func(sig syscall.Signal) error { return unix.Kill(id.PID, sig) })
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
