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
// dead hosts of shared servers have left on disk. It does nothing while another sweep is under way.
func Sweep(runtime string, grace teardown.Grace) error {
	dirs := session.OpenAll(os.Getuid(), runtime)
	defer session.CloseAll(dirs)
	locks := takeSweeps(dirs)
	if locks == nil {
		return nil
	}
	h, own, err := sweepRecords(runtime, grace)
	if h == nil {
		releaseAll(locks)
		return err
	}
	idle := !slices.ContainsFunc(own, func(f Finding) bool { return f.over() })
	tried := func(id string) bool {
		return slices.ContainsFunc(own, func(f Finding) bool { return f.Session == id && f.unread == "" })
	}
	errs := []error{err}
	for _, l := range locks {
		errs = append(errs, l.EndSweep(h.Host, idle, tried))
	}
	return errors.Join(errs...)
}

// takeSweeps takes the locks of a sweep, nil if another one has one of them. A directory in which none can be made, as on a full
// disk, is swept without.
func takeSweeps(dirs []*session.Directory) []*session.Lease {
	locks := []*session.Lease{}
	for _, dir := range dirs {
		l, err := dir.TakeSweep()
		if errors.Is(err, session.ErrHeld) {
			releaseAll(locks)
			return nil
		}
		if err == nil {
			locks = append(locks, l)
		}
	}
	return locks
}

func releaseAll(locks []*session.Lease) {
	for _, l := range locks {
		l.Release()
	}
}

// sweepRecords ends what the records prove. own are the sessions that it has tried to end. The machine is nil if it could not be
// read.
func sweepRecords(runtime string, grace teardown.Grace) (h *machine, own []Finding, err error) {
	tidySockets(runtime, func(error) {})
	h, err = gather(runtime, Reach{Recorded: true}, func(error) {})
	if err != nil {
		return nil, nil, err
	}
	found := find(h, Rules{})
	own = found[:0]
	for _, f := range found {
		if f.Class == classRecord && f.UID == os.Getuid() {
			own = append(own, f)
		}
	}
	return h, own, endFindings(own, false, grace, h.Since)
}
