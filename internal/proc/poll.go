package proc

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// pollPause is how long Poll waits between two looks where it cannot wait for all descriptors at once.
const pollPause = 20 * time.Millisecond

// Poll waits until something has happened to one of the descriptors or the time is up; a negative timeout waits for
// ever. It returns how many are ready. A signal ends the wait with 0.
//
// poll(2) needs memory, and refuses more descriptors than RLIMIT_NOFILE, which another process may lower by prlimit(2).
// Where it fails, Poll looks at the descriptors one by one, with epoll(7) where poll(2) refuses even one, and sleeps in
// between. At a limit of 0 there is no epoll either, only select(2) (ready).
func Poll(fds []unix.PollFd, timeout time.Duration) int {
	n, err := ppoll(fds, timeout)
	if err == nil || errors.Is(err, unix.EINTR) {
		return max(n, 0)
	}
	limit := time.Now().Add(timeout)
	for {
		n = 0
		for i := range fds {
			if look(&fds[i]) {
				n++
			}
		}
		left := time.Until(limit)
		if n > 0 || timeout >= 0 && left <= 0 {
			return n
		}
		pause := pollPause
		if timeout >= 0 {
			pause = min(pause, left)
		}
		if Sleep(pause) {
			// A signal ended the sleep. Its pipe may be one of the descriptors that cannot be looked at.
			return 0
		}
	}
}

// look looks at one descriptor without waiting, and reports whether it is ready.
func look(fd *unix.PollFd) bool {
	one := []unix.PollFd{*fd}
	n, err := ppoll(one, 0)
	fd.Revents = one[0].Revents
	if err == nil {
		return n > 0
	}
	fd.Revents = 0
	if fd.Fd < 0 {
		return false
	}
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return ready(fd)
	}
	defer unix.Close(set)
	// The bits are the same (epoll_ctl(2)).
	event := []unix.EpollEvent{{Events: uint32(fd.Events), Fd: fd.Fd}}
	if unix.EpollCtl(set, unix.EPOLL_CTL_ADD, int(fd.Fd), &event[0]) != nil {
		return false
	}
	if n, err := unix.EpollWait(set, event, 0); err != nil || n == 0 {
		return false
	}
	fd.Revents = int16(event[0].Events)
	return true
}

// ready asks select(2), which knows no limit, whether one descriptor can be read. If it can be read but holds no byte,
// that is a hang-up. select(2) does not show that the other end of an output is gone.
func ready(p *unix.PollFd) bool {
	fd := int(p.Fd)
	if fd < 0 || fd >= unix.FD_SETSIZE || p.Events&(unix.POLLIN|unix.POLLRDHUP) == 0 {
		return false
	}
	var in unix.FdSet
	in.Set(fd)
	if n, err := unix.Select(fd+1, &in, nil, nil, &unix.Timeval{}); err != nil || n == 0 {
		return false
	}
	p.Revents = p.Events & unix.POLLIN
	if waiting, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && waiting == 0 {
		p.Revents |= unix.POLLHUP
	}
	return p.Revents != 0
}

func ppoll(fds []unix.PollFd, timeout time.Duration) (int, error) {
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		ts = &t
	}
	return unix.Ppoll(fds, ts, nil)
}

// Sleep sleeps on the calling thread, and reports whether a signal ended it early. Package time would hand the work to
// another thread, which cannot always be had.
func Sleep(d time.Duration) (interrupted bool) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	return errors.Is(unix.Nanosleep(&ts, nil), unix.EINTR)
}
