package proc

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// pollPause is how long Poll waits where it cannot wait for the descriptors.
const pollPause = 20 * time.Millisecond

// Poll waits until something has happened to one of the descriptors or the time is up; a negative timeout waits for
// ever. It returns how many are ready. A signal ends the wait with 0, and so does a want of memory, or of descriptors: poll(2)
// refuses more of them than RLIMIT_NOFILE, which another process may lower by prlimit(2).
func Poll(fds []unix.PollFd, timeout time.Duration) int {
	n, err := ppoll(fds, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		Sleep(pollPause)
	}
	return max(n, 0)
}

func ppoll(fds []unix.PollFd, timeout time.Duration) (int, error) {
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		ts = &t
	}
	return unix.Ppoll(fds, ts, nil)
}

// Sleep sleeps on the calling thread, until a signal comes at most. Package time would hand the work to another thread, which cannot
// always be had.
func Sleep(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil)
}

// Shorter is the shorter of two waits for Poll. A negative one is for ever; b is not negative.
func Shorter(a, b time.Duration) time.Duration {
	if a < 0 || b < a {
		return b
	}
	return a
}

// Earliest is the first of the times that are set, zero when none is.
func Earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// IsDue reports whether a time that is set has come.
func IsDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }
