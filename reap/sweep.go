package reap

import (
	"errors"
	"os"
	"slices"

	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// HasDead reports whether a sweep may find something to end: a session of the user whose supervisor is dead, or a shared server
// whose host is. It reads no process table.
func HasDead(runtime string) bool {
	dirs := session.OpenAll(os.Getuid(), runtime)
	defer session.CloseAll(dirs)
	return slices.ContainsFunc(dirs, (*session.Directory).Unswept)
}

// Sweep ends the user's recorded sessions whose supervisor is dead, with their containers, and nothing else. It removes what
// dead hosts of shared servers have left on disk. It leaves alone the directories in
// which another sweep is under way. It returns what it has found of these sessions.
func Sweep(runtime string, grace teardown.Grace) ([]Finding, error) {
	dirs := session.OpenAll(os.Getuid(), runtime)
	defer session.CloseAll(dirs)
	locks, busy := takeSweeps(dirs)
	if len(busy) == len(dirs) {
		return nil, nil
	}
	h, own, err := sweepRecords(runtime, grace, busy)
	if h == nil {
		for _, l := range locks {
			l.Release()
		}
		return nil, err
	}
	idle := !slices.ContainsFunc(own, func(f Finding) bool { return f.over() })
	tried := func(id string) bool {
		return slices.ContainsFunc(own, func(f Finding) bool { return f.Session == id && f.unread == "" })
	}
	errs := []error{err}
	for _, l := range locks {
		errs = append(errs, l.EndSweep(h.Host, idle, tried))
	}
	return own, errors.Join(errs...)
}

// takeSweeps takes the locks of a sweep. busy are the names of the directories in which another one is under way. A directory in
// which no lock can be made, as on a full disk, is swept without.
func takeSweeps(dirs []*session.Directory) (locks []*session.Lease, busy []string) {
	for _, dir := range dirs {
		l, err := dir.TakeSweep()
		switch {
		case err == nil:
			locks = append(locks, l)
		case errors.Is(err, session.ErrHeld):
			busy = append(busy, dir.Name)
		}
	}
	return locks, busy
}

// sweepRecords ends what the records prove, but for those in the directories where another sweep is under way. own are the
// sessions that it has tried to end. The machine is nil if it could not be read.
func sweepRecords(runtime string, grace teardown.Grace, busy []string) (h *machine, own []Finding, err error) {
	tidySockets(runtime, func(error) {})
	h, err = gather(runtime, Reach{Recorded: true}, func(error) {})
	if err != nil {
		return nil, nil, err
	}
	found := find(h, Rules{})
	own = found[:0]
	for _, f := range found {
		if f.Class == classRecord && f.UID == os.Getuid() && !slices.Contains(busy, f.record.Name) {
			own = append(own, f)
		}
	}
	return h, own, endFindings(own, false, grace, h.Since)
}
