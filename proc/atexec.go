package proc

import "syscall"

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

// SignalBit is the bit of a signal in a mask.
func SignalBit(sig syscall.Signal) uint64 { return 1 << (uint(sig) - 1) }
