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
func (r *Reader) Signal(id ID, sigs ...syscall.Signal) error {
	return r.signalIf(id.PID, is(id), sigs...)
}

// is judges a process by its start time.
func is(id ID) func(Stat) error {
	return func(s Stat) error {
		if s.Start != id.Start {
			return fmt.Errorf("signal %v: pid belongs to another process now: %w", id, ErrGone)
		}
		return nil
	}
}

// signalIf sends the signals to the process that has the pid, unless judge returns an error, which signalIf then
// returns. It opens a pidfd, then reads the stat that judge is shown. Then it asks the pidfd whether its process still
// runs: only then was that stat its own. Other errors are those of Signal.
//
// Kernels before 5.3 have no pidfd, and a process at its limit of open files gets none. There the judgement directly
// before kill(2) is all there is.
func (r *Reader) signalIf(pid int, judge func(Stat) error, sigs ...syscall.Signal) error {
	if pid <= 1 || pid == os.Getpid() {
		return fmt.Errorf("signal %d: refused: init and the supervisor itself are never a member", pid)
	}
	fd, err := OpenPidfd(pid)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return r.signalByPID(pid, judge, sigs)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	s, err := r.judged(pid, judge)
	if err != nil {
		return err
	}
	if exited(fd) {
		return fmt.Errorf("signal %v: %w", s.ID, ErrGone)
	}
	err = sendAll(s.ID, sigs, func(sig syscall.Signal) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
	if errors.Is(err, unix.ENOSYS) {
		return r.signalByPID(pid, judge, sigs)
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

func (r *Reader) judged(pid int, judge func(Stat) error) (Stat, error) {
	s, err := r.Stat(pid)
	if err == nil {
		err = judge(s)
	}
	return s, err
}

// signalByPID refuses the number of a thread. Without a pidfd nothing else does: /proc shows a thread like a process, and
// kill(2) signals the whole process that it belongs to.
func (r *Reader) signalByPID(pid int, judge func(Stat) error, sigs []syscall.Signal) error {
	if err := unix.Tgkill(pid, pid, 0); err == unix.ESRCH {
		return vanished(err)
	}
	s, err := r.judged(pid, judge)
	if err != nil {
		return err
	}
	return sendAll(s.ID, sigs, func(sig syscall.Signal) error { return unix.Kill(pid, sig) })
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
