package evidence

import (
	"errors"
	"fmt"
	"os"
	"time"

	"mcp-tether/internal/proc"
)

// firstPIDNamespace is the inode of the pid namespace that the kernel starts with (PROC_PID_INIT_INO in linux/proc_ns.h).
// Every process of the machine has a number in it.
const firstPIDNamespace = 0xEFFFFFFC

// kthreadd is the parent of all kernel threads, in that namespace.
const kthreadd = 2

// errPartOfTable says that there may be processes that cannot be seen from here.
var errPartOfTable = errors.New("not all processes of the machine can be seen from here")

// PIDNamespaces lists the pid namespaces of all processes on the machine. One that had a process before the call, and is
// not listed, is gone: its init outlives all others, and the kernel lets no other follow (pid_namespaces(7)). The error says that
// a process may have been missed.
func PIDNamespaces() (map[uint64]bool, error) {
	own, err := PIDNamespace(os.Getpid())
	if err == nil && own != firstPIDNamespace {
		err = errPartOfTable
	}
	if err != nil {
		return nil, err
	}
	// Whoever may look at a kernel thread, which has all rights, may look at all others: then hidepid hides none (proc(5)).
	if _, err := PIDNamespace(kthreadd); err != nil {
		return nil, fmt.Errorf("%w: %w", errPartOfTable, err)
	}
	list, err := proc.PIDs()
	if err != nil {
		return nil, fmt.Errorf("list the pid namespaces: %w", err)
	}
	out := map[uint64]bool{own: true}
	// What has just been forked by a process that a sandbox closes to all others can be read once it has executed another program.
	for n := 0; len(list) > 0; n++ {
		if list, err = addNamespaces(out, list); err != nil && n == closedTries {
			return nil, fmt.Errorf("%w: %w", errPartOfTable, err)
		}
		if err != nil {
			proc.Sleep(closedPause)
		}
	}
	return out, nil
}

// How often and how long to wait for a process that cannot be read.
const (
	closedTries = 5
	closedPause = 10 * time.Millisecond
)

// addNamespaces adds the pid namespaces of processes. closed are those that live and cannot be read; the error says why.
func addNamespaces(to map[uint64]bool, list []int) (closed []int, err error) {
	var r proc.Reader
	for _, pid := range list {
		if pid == 1 {
			continue // It is in the first one. A sandbox may close it to all others.
		}
		ns, nsErr := PIDNamespace(pid)
		if nsErr == nil {
			to[ns] = true
		} else if _, gone := r.Stat(pid); !errors.Is(gone, proc.ErrGone) {
			closed, err = append(closed, pid), nsErr
		}
	}
	return closed, err
}
