package proc

import "syscall"

// Caught is a signal that has arrived.
type Caught struct {
	Signal syscall.Signal
	// FromKernel says that no process sent it: the terminal did, for its foreground group (SI_KERNEL, sigaction(2)).
	FromKernel bool
}
