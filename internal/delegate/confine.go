package delegate

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Limits of a child. The first two are of memory, in bytes: what the collector aims at, and what the kernel grants. The
// kernel counts all writable memory, touched or not. A Go program with cgo has 100 MiB of that when it starts, mostly
// stacks, and 5 MiB in memory. What is read is bounded where it is read.
const (
	aimMemory = 32 << 20
	maxMemory = 128 << 20
	maxCPU    = 60 // seconds
	maxFiles  = 1024
	maxFile   = 8 << 20 // bytes: a lock, a record
)

// errRoot says that root typed the hidden word: such a child would give up nothing.
var errRoot = errors.New("a child for a user must not be root: use 'mcp-tether reap', 'ps' or 'stop'")

// Confine gives up for good what the work for a user does not need. A child calls it first.
func Confine() error {
	if os.Getuid() == 0 || os.Geteuid() == 0 {
		return errRoot
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	for _, l := range []struct {
		what int
		to   uint64
	}{
		{unix.RLIMIT_DATA, maxMemory}, {unix.RLIMIT_CPU, maxCPU}, {unix.RLIMIT_NOFILE, maxFiles}, {unix.RLIMIT_FSIZE, maxFile},
		{unix.RLIMIT_CORE, 0},
	} {
		var have unix.Rlimit
		if err := unix.Getrlimit(l.what, &have); err != nil {
			return fmt.Errorf("read limit %d: %w", l.what, err)
		}
		to := min(l.to, have.Max)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: to, Max: to}); err != nil {
			return fmt.Errorf("set limit %d: %w", l.what, err)
		}
	}
	debug.SetMemoryLimit(aimMemory)
	unix.Umask(0o077)
	return nil
}
