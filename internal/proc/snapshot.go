package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// How often a Snapshot tries again to look at a process when there is no descriptor or memory for that, over the whole table, and
// how long the others then have to give some back.
const (
	starvedLooks = 20
	starvedPause = 10 * time.Millisecond
)

// Snapshot reads the process table: stat and owner of every process in sight, kernel threads left out, and what else is
// wanted. Entries that vanish or may not be read are missing: unknown. A copy reads all memory, so a process that keeps its readers
// waiting costs a moment. If there is no descriptor or memory to look at a process that may be there, there is an error
// and no table: what is missing from a table would count as dead.
func Snapshot(want *Wanted) ([]Process, error) {
	list, err := pids("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	return snapshotOf(list, want)
}

// snapshotOf is a Snapshot of these processes.
func snapshotOf(list []int, want *Wanted) ([]Process, error) {
	r := Reader{Apart: true}
	defer r.EndCopy()
	out, tries := make([]Process, 0, len(list)), 0
	for _, pid := range list {
		p, ok, err := r.entry(pid, want)
		for ; err != nil && tries < starvedLooks; tries++ {
			r.EndCopy() // It takes two descriptors to begin with.
			Sleep(starvedPause)
			p, ok, err = r.entry(pid, want)
		}
		if err != nil {
			return nil, fmt.Errorf("read the process table: %w", err)
		}
		if ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// kthreadd is the parent of all kernel threads.
const kthreadd = 2

// entry reads a process, and what is wanted of it. ok is false for one that is not in a Snapshot. The error says that it could
// not be looked at (Starved).
func (r *Reader) entry(pid int, want *Wanted) (p Process, ok bool, err error) {
	if p.Stat, err = r.Stat(pid); err != nil || p.PPID == kthreadd || p.PID == kthreadd && p.PPID == 0 {
		return p, false, unlessUnknown(err)
	}
	// The files of a process that is not dumpable belong to root, its directory to the effective user (proc(5)).
	if p.UID, err = UID(pid); err != nil {
		return p, false, unlessUnknown(err)
	}
	if p.Dead() {
		return p, true, nil
	}
	if want.Args(p.UID) {
		p.Args, err = r.Args(p.Stat)
	}
	if !Starved(err) && want.Env(p.UID) {
		var envErr error
		p.Env, envErr = r.Env(p.Stat, want.Names...)
		err = errors.Join(err, envErr)
	}
	p.Stuck = errors.Is(err, ErrKeptWaiting)
	return p, true, unlessUnknown(err)
}

// unlessUnknown drops an error that says something about the process: it has ended, or may not be read.
func unlessUnknown(err error) error {
	if Starved(err) {
		return err
	}
	return nil
}

// PIDNamespace reads the pid namespace of a process. It may fail for a process of another user.
func PIDNamespace(pid int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path(pid, "ns/pid"), &st); err != nil {
		return 0, fmt.Errorf("read the pid namespace of %d: %w", pid, vanished(err))
	}
	return st.Ino, nil
}
