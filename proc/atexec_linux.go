package proc

import (
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
