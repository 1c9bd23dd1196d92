package delegate

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
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
	maxTasks  = 64      // processes and threads, twice, beside those that the user has
)

// Why a process cannot become a user.
var (
	errNotRoot = errors.New("only root's passes have a child for a user: use 'mcp-tether reap', 'ps' or 'stop'")
	errRoot    = errors.New("a child for a user must not be root")
	errOrphan  = errors.New("the process that has started it is gone")
)

// Become makes this process the user, and gives up for good what the work for the user does not need. A child calls it
// first, while it is root and no user can stop or trace it. There is no exec after it. The memory of a process that has
// changed its user is closed to that user until an exec opens it.
func Become(as argv.Delegated) error {
	switch {
	case os.Geteuid() != 0:
		return errNotRoot
	case as.UID == 0:
		return errRoot
	}
	parent := os.Getppid()
	if err := limit(); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("leave root's directory: %w", err)
	}
	if err := drop(as); err != nil {
		return fmt.Errorf("become user %d: %w", as.UID, err)
	}
	// The kernel has done so, unless fs.suid_dumpable says otherwise.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close the memory to the user: %w", err)
	}
	// A change of user takes the death signal away (prctl(2)).
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the starter: %w", err)
	}
	if os.Getppid() != parent {
		return errOrphan
	}
	unix.Umask(0o077)
	if err := limitTasks(uint64(as.Tasks)); err != nil {
		return err
	}
	debug.SetMemoryLimit(aimMemory)
	return lower(unix.RLIMIT_DATA, maxMemory) // The runtime may need a thread for what comes before.
}

// limit sets the limits of this process and of what it starts.
func limit() error {
	for _, l := range []struct {
		what int
		to   uint64
	}{
		{unix.RLIMIT_CPU, maxCPU}, {unix.RLIMIT_NOFILE, maxFiles}, {unix.RLIMIT_FSIZE, maxFile},
		{unix.RLIMIT_CORE, 0},
	} {
		if err := lower(l.what, l.to); err != nil {
			return err
		}
	}
	return nil
}

// lower sets a limit, unless it is lower already.
func lower(what int, to uint64) error {
	var have unix.Rlimit
	if err := unix.Getrlimit(what, &have); err != nil {
		return fmt.Errorf("read limit %d: %w", what, err)
	}
	to = min(to, have.Max)
	if err := unix.Setrlimit(what, &unix.Rlimit{Cur: to, Max: to}); err != nil {
		return fmt.Errorf("set limit %d: %w", what, err)
	}
	return nil
}

// limitTasks sets how many processes and threads the user may have, where this process has any share in them. The kernel
// counts those in other pid namespaces as well, and does not tell how many there are. But it refuses to fork. The Go
// runtime gives up where it gets no thread, so the limit leaves room for some.
func limitTasks(seen uint64) error {
	var have unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &have); err != nil {
		return fmt.Errorf("read the limit of processes: %w", err)
	}
	n := seen + maxTasks
	for ; n < have.Max; n *= 2 {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: have.Max}); err != nil {
			return fmt.Errorf("set the limit of processes: %w", err)
		}
		_, release, err := proc.EmptyGroup()
		if err == nil {
			release()
		}
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return lower(unix.RLIMIT_NPROC, n+maxTasks)
}

// drop changes groups and user of every thread. Package syscall does that, not package unix.
func drop(as argv.Delegated) error {
	if err := syscall.Setgroups(as.Groups); err != nil {
		return fmt.Errorf("set its groups: %w", err)
	}
	if err := syscall.Setresgid(as.GID, as.GID, as.GID); err != nil {
		return fmt.Errorf("set its group: %w", err)
	}
	if err := syscall.Setresuid(as.UID, as.UID, as.UID); err != nil {
		return fmt.Errorf("set its number: %w", err)
	}
	if r, e, s := unix.Getresuid(); r != as.UID || e != as.UID || s != as.UID {
		return errRoot
	}
	return nil
}
