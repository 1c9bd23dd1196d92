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
// passes over what it does not understand; that is what is left where the linker was not told to enter at atExec.
func Environ() []string {
	if env, ok := recordedEnviron(); ok {
		return env
	}
	return os.Environ()
}
