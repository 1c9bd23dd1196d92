package proc

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Caught is a signal that has arrived, once or several times.
type Caught struct {
	Signal syscall.Signal
	// FromKernel says that no process sent the last one: the terminal did, for its foreground group (SI_KERNEL, sigaction(2)).
	FromKernel bool
}

// Ends reports whether the signal ends a session.
func (c Caught) Ends() bool { return ending&signalBit(c.Signal) != 0 }

// FromKeyboard reports whether the signal came from the terminal. It has then reached the whole foreground group.
func (c Caught) FromKeyboard() bool {
	return c.FromKernel && (c.Signal == syscall.SIGINT || c.Signal == syscall.SIGQUIT || c.Signal == syscall.SIGWINCH)
}

// OwnLimit reports whether the kernel has sent the signal because of our own limit of processor time (setrlimit(2)).
func (c Caught) OwnLimit() bool { return c.FromKernel && c.Signal == syscall.SIGXCPU }

// The handler (catch_linux_*.s) sets the signal's bit in one word, and rings a bell: it writes a byte into a pipe that poll(2)
// can watch beside everything else. It runs on whatever thread the kernel picks, and leaves the signal blocked there:
// otherwise a flood would keep a thread in the handler for ever. So between two turns a thread takes each signal once.
// Signals of the same number that come together are one, as in the kernel.
// Package os/signal would take two more threads and a handshake between them for every signal: a millisecond at each start.
// A signalfd(2) misses SIGTERM, SIGINT, SIGHUP, SIGQUIT and SIGCHLD, which the Go runtime unblocks in all of its threads.

// signalsPending are the signals that were caught and not read yet. signalsByKernel are those whose last one was sent by the
// kernel itself.
var signalsPending, signalsByKernel uint64

// signalBell is the write end of the pipe; it is set before the first handler is installed.
//
//nolint:unused // read from assembly
var signalBell uint64

// catchable reports whether Catch catches a signal. SIGKILL and SIGSTOP cannot be caught. The faults (SIGILL, SIGTRAP,
// SIGBUS, SIGFPE, SIGSEGV, SIGSYS) belong to this process. The runtime preempts its threads with SIGURG, and 32 to 34
// belong to C libraries.
func catchable(n syscall.Signal) bool {
	switch n {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV,
		syscall.SIGSYS, syscall.SIGURG, 32, 33, 34:
		return false
	}
	return n >= 1 && n <= lastSignal
}

// lastSignal is the highest real-time signal.
const lastSignal = 64

// Catch catches the signals of the set (bit n-1 for signal n) and returns the descriptor that can be read when there are some,
// for ReadCaught. Those that are not catchable are left out. The calling thread takes them also if they were blocked, so
// call it on the locked main thread. Call it once: there is one bell for the process.
func Catch(set uint64) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, fmt.Errorf("make the signal pipe: %w", err)
	}
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if set&signalBit(n) == 0 || !catchable(n) {
			set &^= signalBit(n)
		}
	}
	signalBell = uint64(p[1])
	if err := catch(set); err != nil {
		return -1, err
	}
	// A gateway may have blocked some around its start of this process. A child gets the mask that we inherited.
	mask := sigsetOf(set)
	return p[0], unix.PthreadSigmask(unix.SIG_UNBLOCK, &mask, nil)
}

// JobControl are the signals that stop a job on a terminal, as a set.
const JobControl = 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)

// Listen catches all signals but those of the set leave and those to ignore (Catch). SIGPIPE and SIGXFSZ are ignored as well: our
// own writes raise them, to a closed standard error and to a file beyond RLIMIT_FSIZE. The kernel sends both as if we did, so
// they cannot be told from what others send. SIGHUP, SIGINT and SIGQUIT stay ignored if they were when the process started
// (nohup, background jobs of a shell).
func Listen(inherited AtExec, leave uint64, ignore ...syscall.Signal) (int, error) {
	ignore = append([]syscall.Signal{syscall.SIGPIPE, syscall.SIGXFSZ}, ignore...)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if inherited.Ignored&signalBit(sig) != 0 {
			ignore = append(ignore, sig)
		}
	}
	for _, sig := range ignore {
		leave |= signalBit(sig)
		if err := Ignore(sig); err != nil {
			return -1, err
		}
	}
	return Catch(^leave)
}

// ending are the signals that end a session, as a set.
const ending = 1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGQUIT-1)

// children is SIGCHLD, as a set.
const children = 1 << (syscall.SIGCHLD - 1)

// ReadCaught appends the signals that have been caught since the last time, each once: those that end a session, then SIGCHLD,
// then the others by number. It makes one read of bounded size, however many there are. Call it on the thread that called
// Catch, which takes further ones from then on. It may also be called when the descriptor cannot be read.
func ReadCaught(fd int, into []Caught) []Caught {
	var rung [4096]byte
	// The bell first: what is caught from here on rings again.
	_, _ = unix.Read(fd, rung[:])
	caught := atomic.SwapUint64(&signalsPending, 0)
	byKernel := atomic.LoadUint64(&signalsByKernel)
	if caught != 0 {
		mask := sigsetOf(caught)
		_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &mask, nil)
	}
	for _, set := range [...]uint64{caught & ending, caught & children, caught &^ (ending | children)} {
		for ; set != 0; set &= set - 1 {
			n := syscall.Signal(bits.TrailingZeros64(set) + 1)
			into = append(into, Caught{n, byKernel&signalBit(n) != 0})
		}
	}
	return into
}
