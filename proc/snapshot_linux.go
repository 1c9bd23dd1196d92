package proc

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Snapshot reads the process table: stat, owner and command line of every process in sight, kernel threads left out.
// Entries that vanish or cannot be read meanwhile are missing: unknown. Several workers read the table, each with its own
// Reader, and call more for each process, in no order.
func Snapshot(workers int, more func(r *Reader, p Process)) error {
	list, err := pids("/proc")
	if err != nil {
		return fmt.Errorf("read the process table: %w", err)
	}
	var wait sync.WaitGroup
	for part := range slices.Chunk(list, len(list)/max(workers, 1)+1) {
		wait.Go(func() {
			var r Reader
			for _, pid := range part {
				if p, ok := r.process(pid); ok {
					more(&r, p)
				}
			}
		})
	}
	wait.Wait()
	return nil
}

// kthreadd is the parent of all kernel threads.
const kthreadd = 2

func (r *Reader) process(pid int) (Process, bool) {
	var st unix.Stat_t
	s, err := r.statInto(pid, &st)
	if err != nil || s.PPID == kthreadd || s.PID == kthreadd && s.PPID == 0 {
		return Process{}, false
	}
	// The owner of the entry is the effective user, as of the directory (proc(5)).
	p := Process{Stat: s, UID: int(st.Uid)}
	if !s.Dead() {
		p.Args = r.Args(pid)
	}
	return p, true
}

// Env reads the named variables of the environment that a process was started with; ok is false when it cannot be read.
// A variable that is not set is "".
func (r *Reader) Env(pid int, names ...string) (values []string, ok bool) {
	b, err := r.readEntry(path(pid, "environ"), nil)
	if err != nil {
		return nil, false
	}
	values = make([]string, len(names))
	for len(b) > 0 {
		var entry []byte
		entry, b, _ = bytes.Cut(b, []byte{0})
		for i, n := range names {
			if len(entry) > len(n) && entry[len(n)] == '=' && string(entry[:len(n)]) == n {
				values[i] = string(entry[len(n)+1:])
			}
		}
	}
	return values, true
}

// PIDNamespace reads the pid namespace of a process; the error is that of a process of another user.
func PIDNamespace(pid int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path(pid, "ns/pid"), &st); err != nil {
		return 0, fmt.Errorf("read the pid namespace of %d: %w", pid, vanished(err))
	}
	return st.Ino, nil
}
