package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// pollPause is how long Poll waits between two looks where it cannot wait for all descriptors at once.
const pollPause = 20 * time.Millisecond

// Poll waits until something has happened to one of the descriptors or the time is up; a negative timeout waits for ever.
// It returns how many have something to tell. A signal ends the wait with 0.
//
// poll(2) refuses more descriptors than RLIMIT_NOFILE, which prlimit(2) lowers from outside, and needs memory. Poll then
// looks at the descriptors one by one, and sleeps in between.
func Poll(fds []unix.PollFd, timeout time.Duration) int {
	n, err := ppoll(fds, timeout)
	if err == nil || errors.Is(err, unix.EINTR) {
		return max(n, 0)
	}
	limit := time.Now().Add(timeout)
	for {
		n = 0
		for i := range fds {
			if m, err := ppoll(fds[i:i+1], 0); err != nil || m == 0 {
				fds[i].Revents = 0
				continue
			}
			n++
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
			// A signal: it waits in its pipe, which may be one of the descriptors that cannot be looked at.
			return 0
		}
	}
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

// AwaitInput blocks until one of the fds can be read, or for the given milliseconds if that is not negative.
func AwaitInput(milliseconds int, fds ...int) error {
	p := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		p[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	if _, err := unix.Poll(p, milliseconds); err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for input: %w", err)
	}
	return nil
}
