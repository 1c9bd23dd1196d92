package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Life says whether the process of an identity lives.
type Life uint8

// The answers of Reader.Life. Only Dead proves an end.
const (
	Unknown Life = iota
	Alive
	Dead
)

func (l Life) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// Life asks the kernel whether a process lives. The zero identity is Unknown. A process that /proc hides (hidepid)
// still answers kill(2), and is Unknown as well.
func (r *Reader) Life(id ID) Life {
	if id.Zero() {
		return Unknown
	}
	s, err := r.Stat(id.PID)
	switch {
	case err == nil && s.ID == id && !s.Dead():
		return Alive
	case err == nil:
		return Dead
	case errors.Is(err, ErrGone) && errors.Is(unix.Kill(id.PID, 0), unix.ESRCH):
		return Dead
	}
	return Unknown
}

// LookPause is the pause between two looks whether a process lives, where no pidfd of it can be had.
const LookPause = 250 * time.Millisecond

// OpenPidfd opens a close-on-exec pidfd (Linux 5.3). The error is ErrGone, or ENOSYS on older kernels and under some
// seccomp filters. EPERM is reported as ENOSYS as well: it is the answer of a filter that does not know the call.
func OpenPidfd(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.EPERM {
		err = unix.ENOSYS
	}
	if err != nil {
		return -1, fmt.Errorf("open pidfd of %d: %w", pid, vanished(err))
	}
	return fd, nil
}

// exited reports whether the process behind a pidfd has ended: the fd polls readable then (pidfd_open(2)).
func exited(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&unix.POLLIN != 0
}
