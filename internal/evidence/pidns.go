package evidence

import (
	"errors"
	"fmt"
	"os"

	"mcp-tether/internal/proc"
)

// firstPIDNamespace is the inode of the pid namespace that the kernel starts with (PROC_PID_INIT_INO in linux/proc_ns.h).
// Every process of the machine has a number in it.
const firstPIDNamespace = 0xEFFFFFFC

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
	var r proc.Reader
	out := map[uint64]bool{own: true}
	for _, pid := range list {
		if pid == 1 {
			continue // It is in the first one. A sandbox may close it to all others.
		}
		ns, err := PIDNamespace(pid)
		if err == nil {
			out[ns] = true
			continue
		}
		if _, gone := r.Stat(pid); !errors.Is(gone, proc.ErrGone) {
			return nil, fmt.Errorf("%w: %w", errPartOfTable, err)
		}
	}
	return out, nil
}
