package proc

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Snapshot reads the process table: stat and owner of every process in sight, kernel threads left out, and the command
// lines of the users for whom trusted says so. A command line is read out of the memory of its process, and may keep the
// reader waiting for as long as that process likes. Entries that vanish or cannot be read meanwhile are missing: unknown.
// Several workers read the table, each with its own Reader, and call more for each process, in no order.
func Snapshot(workers int, trusted func(uid int) bool, more func(r *Reader, p Process)) error {
	list, err := pids("/proc")
	if err != nil {
		return fmt.Errorf("read the process table: %w", err)
	}
	var wait sync.WaitGroup
	for part := range slices.Chunk(list, len(list)/max(workers, 1)+1) {
		wait.Go(func() {
			var r Reader
			for _, pid := range part {
				if p, ok := r.process(pid, trusted); ok {
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

func (r *Reader) process(pid int, trusted func(uid int) bool) (Process, bool) {
	var st unix.Stat_t
	s, err := r.statInto(pid, &st)
	if err != nil || s.PPID == kthreadd || s.PID == kthreadd && s.PPID == 0 {
		return Process{}, false
	}
	p := Process{Stat: s, UID: int(st.Uid)}
	if p.UID == 0 {
		// The files of a process that is not dumpable belong to root, its directory to the effective user (proc(5)).
		if p.UID, err = UID(pid); err != nil {
			return Process{}, false
		}
	}
	if !s.Dead() && trusted(p.UID) {
		p.Args = r.Args(pid)
	}
	return p, true
}

// Env reads the named variables of the environment that a process was started with; ok is false when it cannot be read.
// A variable that is not set is "".
func (r *Reader) Env(pid int, names ...string) (values []string, ok bool) {
	values = make([]string, len(names))
	err := r.eachEnv(pid, func(entry []byte) {
		for i, n := range names {
			if len(entry) > len(n) && entry[len(n)] == '=' && string(entry[:len(n)]) == n {
				values[i] = string(entry[len(n)+1:])
			}
		}
	})
	if err != nil {
		return nil, false
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
