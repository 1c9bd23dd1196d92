package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Before main runs, the Go runtime changes some of what a process inherits. It installs handlers for signals that were
// ignored, opens /dev/null on closed standard streams and raises the limit of open files. A server must inherit all of
// it unchanged. So the linked binary enters at atExec (the flag -E in the Makefile), which asks the kernel first and
// then jumps to the runtime. A binary linked without the flag, or for another architecture, passes the changes on to
// the server.

// AtExec is what the process inherited.
type AtExec struct {
	// Exact is false when the binary was not linked to enter at atExec. Then Closed is 0 and Files unknown (zero).
	// Ignored holds no more than SIGHUP and SIGINT, which the runtime leaves alone.
	Exact bool
	// Mask is the signal mask, Ignored the set of signals that were SIG_IGN; bit n-1 stands for signal n.
	Mask, Ignored uint64
	// Closed has bit n set for every standard stream n (0, 1, 2) that was not open.
	Closed uint64
	// Files is RLIMIT_NOFILE.
	Files syscall.Rlimit
}

// signalBit is the bit of a signal in a mask.
func signalBit(sig syscall.Signal) uint64 { return 1 << (uint(sig) - 1) }

// ReadAtExec returns what the entry point recorded, or what can still be known without it.
func ReadAtExec() AtExec {
	if at, ok := recorded(); ok {
		return at
	}
	var at AtExec
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if a, err := getAction(sig); err == nil && a.handler == sigIgn {
			at.Ignored |= signalBit(sig)
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
