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
// passes over what it does not understand. Nothing better is known where the linker did not make the program enter at
// atExec.
func Environ() []string {
	if env, ok := recordedEnviron(); ok {
		return env
	}
	return os.Environ()
}

// RestoreTimerSlack gives the calling thread the timer slack that the process inherited (prctl(2), PR_SET_TIMERSLACK), and
// with it the children that it will start. Before main, atExec makes it a millisecond. The monitor of the Go runtime wakes
// every 20 µs at first, in a time when a session has two processes that start. Its thread is there before main and keeps the
// millisecond: far fewer wake-ups, and none of them needs to be in time. Call it on the locked main thread.
func RestoreTimerSlack() {
	if slack := recordedSlack(); slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
	}
}
