package proc

import "syscall"

// What a process is started with and the Go runtime changes before main runs: it installs handlers for signals that were
// ignored, opens /dev/null on closed standard streams and raises the limit of open files. A server must inherit all of
// it as it was, so the linked binary enters at atExec (the flag -E in the Makefile), which asks the kernel first and
// then jumps to the runtime.
//
// atExec also blocks every signal that a session cares about. The runtime's threads inherit the mask, so those signals
// can be read from a signalfd, in the same poll(2) as everything else: package os/signal would need two more threads
// and a hand-shake between them for each signal, a millisecond at every start.
//
// A binary linked without the flag, or for another architecture, executes itself once more with the signals blocked
// (ExecBlocked); what the runtime had changed by then stays changed.

// AtExec is what the process inherited.
type AtExec struct {
	// Exact is false when the binary was not linked to enter at the recorder: then Closed is 0, Files unknown (zero),
	// and Ignored holds no more than SIGHUP and SIGINT, which the runtime leaves alone.
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

// Blockable is the set of signals that are blocked and read from a signalfd. Left out: SIGKILL and SIGSTOP, which cannot
// be blocked; SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSTKFLT, SIGCHLD and SIGPROF, which the runtime unblocks in
// every thread (runtime/sigtab_linux_generic.go), and SIGSYS, a fault like them; SIGURG, with which the runtime preempts
// its threads; 32 to 34, which belong to C libraries. The entry points in atexec_linux_*.s hold the same number.
const Blockable = ^uint64(0) &^ (bitKill | bitStop | bitUrg | bitRuntime | bitSys | bitLibc)

const (
	bitKill    = 1 << 8
	bitStop    = 1 << 18
	bitUrg     = 1 << 22
	bitSys     = 1 << 30
	bitRuntime = 1<<3 | 1<<4 | 1<<6 | 1<<7 | 1<<10 | 1<<15 | 1<<16 | 1<<26
	bitLibc    = 1<<31 | 1<<32 | 1<<33
)
