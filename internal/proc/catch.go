package proc

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Caught is a signal that has arrived.
type Caught struct {
	Signal syscall.Signal
	// FromKernel says that no process sent it: the terminal did, for its foreground group (SI_KERNEL, sigaction(2)).
	FromKernel bool
}

// Ends reports whether the signal ends a session.
func (c Caught) Ends() bool {
	switch c.Signal {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// FromKeyboard reports whether the signal came from the terminal. It has then reached the whole foreground group.
func (c Caught) FromKeyboard() bool {
	return c.FromKernel && (c.Signal == syscall.SIGINT || c.Signal == syscall.SIGQUIT || c.Signal == syscall.SIGWINCH)
}

// OwnLimit reports whether the kernel has sent the signal because of our own limit of processor time (setrlimit(2)).
func (c Caught) OwnLimit() bool { return c.FromKernel && c.Signal == syscall.SIGXCPU }

// Signals arrive in a pipe that poll(2) can watch beside everything else. The handler (catch_linux_*.s) writes two bytes
// and returns, on whatever thread the kernel picks. Package os/signal would do the same with two more threads and a
// handshake between them for every signal: a millisecond at each start. A signalfd(2) misses SIGTERM, SIGINT, SIGHUP,
// SIGQUIT and SIGCHLD, which the Go runtime unblocks in all of its threads.

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

// Catch directs the signals of the set (bit n-1 for signal n) to a pipe and returns its read end. Those that are not
// catchable are left out. The calling thread takes them also if they were blocked, so call it on the locked main thread. Call it
// once: there is one pipe for the process.
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
	if err := catchInto(p[1], set); err != nil {
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

// siKernel is SI_KERNEL of sigaction(2), as the one byte that the handler writes.
const siKernel = 0x80

// ReadCaught empties the pipe into the slice.
func ReadCaught(fd int, into []Caught) []Caught {
	var buf [256]byte
	for {
		n, err := unix.Read(fd, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return into
		}
		// The handler writes two bytes at once, so there is never half a record (pipe(7), PIPE_BUF).
		for i := 0; i+1 < n; i += 2 {
			into = append(into, Caught{syscall.Signal(buf[i]), buf[i+1] == siKernel})
		}
	}
}
