package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReadAtExec returns what the entry point recorded, or what can still be known without it.
func ReadAtExec() AtExec {
	if at, ok := recorded(); ok {
		return at
	}
	var at AtExec
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if a, err := getAction(sig); err == nil && a.handler == sigIgn {
			at.Ignored |= SignalBit(sig)
		}
	}
	var set unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &set); err == nil {
		at.Mask = maskOf(&set)
	}
	return at
}

// Environ is the environment byte for byte as it was given, duplicates, empty entries and order included. Package os
// leaves out what it does not understand. A binary that was not linked to enter at atExec has nothing better.
func Environ() []string {
	if env, ok := recordedEnviron(); ok {
		return env
	}
	return os.Environ()
}

// RestoreTimerSlack gives the calling thread, and the children that it will start, the timer slack that the process
// inherited (prctl(2), PR_SET_TIMERSLACK). Before main, atExec sets the slack to a millisecond. The Go runtime's
// monitor thread wakes every 20 µs at first, while the two processes of a session are starting. It exists before main
// and keeps the millisecond. So it wakes far less often, and none of its wake-ups needs to be precise. Call
// RestoreTimerSlack on the locked main thread.
func RestoreTimerSlack() {
	if slack := recordedSlack(); slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
	}
}
