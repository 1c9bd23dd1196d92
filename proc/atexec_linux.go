package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// envBlocked carries the original mask over the exec of ExecBlocked. It is gone before anything else is started.
const envBlocked = "MCP_TETHER_BLOCKED"

// ExecBlocked returns at once in a binary that entered at atExec. In any other it blocks the signals on this thread,
// executes the program once more, and returns in that one. Call it first, on the main goroutine.
func ExecBlocked() (AtExec, error) {
	if at, ok := recorded(); ok {
		return at, nil
	}
	if at, ok := reexecuted(); ok {
		return at, nil
	}
	var old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, sigset(Blockable), &old); err != nil {
		return AtExec{}, fmt.Errorf("block signals: %w", err)
	}
	env := append(os.Environ(), envBlocked+"="+strconv.FormatUint(mask(&old), 16))
	err := syscall.Exec(SelfExe, os.Args, env)
	return AtExec{}, fmt.Errorf("execute %s with signals blocked: %w", SelfExe, err)
}

func reexecuted() (AtExec, bool) {
	v, ok := os.LookupEnv(envBlocked)
	if !ok {
		return AtExec{}, false
	}
	_ = os.Unsetenv(envBlocked)
	m, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
	return AtExec{Mask: m, Ignored: stillIgnored()}, err == nil
}

// stillIgnored finds the two signals whose SIG_IGN the runtime respects.
func stillIgnored() uint64 {
	var m uint64
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		var action [4]uint64
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		if errno == 0 && action[0] == sigIgn {
			m |= SignalBit(sig)
		}
	}
	return m
}

const sigIgn = 1

// Unblock restores the signal mask in a process that is no session: its main thread takes the signals then.
func Unblock() {
	if at, ok := recorded(); ok {
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, sigset(at.Mask), nil)
	}
}

// UnblockSome unblocks signals on the calling thread.
func UnblockSome(set uint64) { _ = unix.PthreadSigmask(unix.SIG_UNBLOCK, sigset(set), nil) }

func sigset(m uint64) *unix.Sigset_t {
	var s unix.Sigset_t
	*(*uint64)(unsafe.Pointer(&s)) = m
	return &s
}

func mask(s *unix.Sigset_t) uint64 { return *(*uint64)(unsafe.Pointer(s)) }
