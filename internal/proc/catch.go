package proc

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/waiting"
)

// SignalSet is a set of signals: bit n-1 stands for signal n.
type SignalSet uint64

// JobControl are the signals that stop a job on a terminal.
const JobControl SignalSet = 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)

// Sets of signals: those that end a session, those that Catch never catches, and SIGCHLD. SIGKILL and SIGSTOP cannot be caught.
// The faults belong to this process, the runtime preempts its threads with SIGURG, and 32 to 34 belong to C libraries.
const (
	endingSignals SignalSet = 1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGQUIT-1)
	childSignal   SignalSet = 1 << (syscall.SIGCHLD - 1)
	// fatal are unblocked by the runtime, which dies of them where they are not caught, whatever the mask was.
	fatal    SignalSet = 1<<(syscall.SIGABRT-1) | 1<<(syscall.SIGSTKFLT-1)
	uncaught SignalSet = 1<<(syscall.SIGKILL-1) | 1<<(syscall.SIGSTOP-1) | 1<<(syscall.SIGILL-1) | 1<<(syscall.SIGTRAP-1) |
		1<<(syscall.SIGBUS-1) | 1<<(syscall.SIGFPE-1) | 1<<(syscall.SIGSEGV-1) | 1<<(syscall.SIGSYS-1) | 1<<(syscall.SIGURG-1) |
		1<<31 | 1<<32 | 1<<33
)

// SessionSignals are those that end a session, and SIGCHLD.
const SessionSignals = endingSignals | childSignal

// lastSignal is the highest real-time signal.
const lastSignal = 64

// Restart asks a front for another server, and RestartNow does so without regard to open calls (mcp-tether restart). No gateway
// sends these two, the highest there are, so a front passes on all others.
const (
	Restart    = syscall.Signal(lastSignal - 1)
	RestartNow = syscall.Signal(lastSignal)
)

// setOf is the set of one signal.
func setOf(sig syscall.Signal) SignalSet { return 1 << (uint(sig) - 1) }

// Ends reports whether a signal ends a session.
func Ends(sig syscall.Signal) bool { return endingSignals&setOf(sig) != 0 }

// Signals are caught signals that poll(2) can wait for beside everything else. Those of the same number that come together are
// one, as in the kernel.
type Signals struct {
	pending atomic.Uint64
	// bell is an eventfd that can be read whenever something is pending. A pipe would take 16 of its user's pages (pipe(7)).
	bell int
}

// Catch catches the signals of a set, as far as they can be caught. The calling thread takes them also if they were blocked, so
// call it on the locked main thread.
func Catch(set SignalSet) (*Signals, error) {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an eventfd for signals: %w", err)
	}
	s := &Signals{bell: bell}
	set &^= uncaught
	arrived := make(chan os.Signal, lastSignal)
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	for left := set; left != 0; left &= left - 1 {
		signal.Notify(arrived, first(left))
	}
	go func() {
		for sig := range arrived {
			if n, ok := sig.(syscall.Signal); ok {
				s.pending.Or(uint64(setOf(n)))
				_, _ = unix.Write(s.bell, one[:])
			}
		}
	}()
	mask := sigsetOf(uint64(set))
	return s, unix.PthreadSigmask(unix.SIG_UNBLOCK, &mask, nil)
}

// first is the signal of the lowest number in a set that is not empty.
func first(set SignalSet) syscall.Signal {
	return syscall.Signal(bits.TrailingZeros64(uint64(set)) + 1)
}

// Listen catches all signals but those of the set leave that stay blocked. SIGPIPE, SIGXFSZ and SIGXCPU are ignored: our own
// writes and our own work raise them. SIGHUP, SIGINT and SIGQUIT stay ignored if they were when the process started (nohup,
// background jobs of a shell).
func Listen(leave SignalSet) (*Signals, error) {
	ignored := ignoredAtStart()
	for _, sig := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGXFSZ, syscall.SIGXCPU} {
		ignored |= setOf(sig)
		if err := Ignore(sig); err != nil {
			return nil, err
		}
	}
	return Catch(^(leave&^fatal | ignored))
}

// ignoredAtStart are those of SIGHUP, SIGINT and SIGQUIT that were ignored when the process started. The runtime leaves two of
// them alone. Of SIGQUIT only what was noted before it tells.
func ignoredAtStart() (set SignalSet) {
	if found, ok := waiting.Found(); ok {
		return SignalSet(found.Ignored) & (setOf(syscall.SIGHUP) | setOf(syscall.SIGINT) | setOf(syscall.SIGQUIT))
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			set |= setOf(sig)
		}
	}
	return set
}

// FD can be read when signals have arrived.
func (s *Signals) FD() int { return s.bell }

// Take appends the signals that have arrived since the last time, each once: those that end a session, then SIGCHLD, then the
// others by number. It may also be called when there are none, and on nil.
func (s *Signals) Take(into []syscall.Signal) []syscall.Signal {
	if s == nil {
		return into
	}
	var rung [8]byte
	// The bell first: what is caught from here on rings again.
	_, _ = unix.Read(s.bell, rung[:])
	caught := SignalSet(s.pending.Swap(0))
	for _, set := range [...]SignalSet{caught & endingSignals, caught & childSignal, caught &^ (endingSignals | childSignal)} {
		for ; set != 0; set &= set - 1 {
			into = append(into, first(set))
		}
	}
	return into
}

// Suspend stops this process as a SIGTSTP that nobody catches does, and returns when it is continued: at once in a process group
// that no shell looks after. Call it on a locked thread.
func Suspend() error {
	caught, err := getAction(unix.SIGTSTP)
	if err != nil {
		return err
	}
	// Zero is the kernel's own action.
	if err := setAction(unix.SIGTSTP, sigaction{}); err != nil {
		return err
	}
	mask := sigsetOf(uint64(setOf(syscall.SIGTSTP)))
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &mask, nil)
	// Sent to this thread, it has been taken when the call returns.
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
	return setAction(unix.SIGTSTP, caught)
}

// sigaction is struct kernel_sigaction (rt_sigaction(2)), the same on amd64 and arm64.
type sigaction struct {
	handler, flags, restorer, mask uint64
}

const sigIgn = 1

func getAction(sig syscall.Signal) (sigaction, error) {
	var a sigaction
	return a, rtSigaction(sig, nil, &a)
}

func setAction(sig syscall.Signal, a sigaction) error { return rtSigaction(sig, &a, nil) }

func rtSigaction(sig syscall.Signal, set, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if errno != 0 {
		return fmt.Errorf("set the action of %v: %w", sig, errno)
	}
	return nil
}

// Ignore has the kernel drop a signal that the runtime catches. A child has its default again (syscall.ForkExec).
func Ignore(sig syscall.Signal) error { return setAction(sig, sigaction{handler: sigIgn}) }

func sigsetOf(mask uint64) (s unix.Sigset_t) {
	*(*uint64)(unsafe.Pointer(&s)) = mask
	return s
}

// setMask sets which signals this thread blocks. was is what it has blocked before.
func setMask(mask uint64) (was uint64) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&was)), 8, 0, 0)
	return was
}
