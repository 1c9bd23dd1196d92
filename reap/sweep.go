package reap

import (
	"errors"
	"os"
	"slices"

	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// HasDead reports whether a sweep is due, and may find something to end: a session of the user whose supervisor is dead, or a
// shared server whose host is. It reads no process table.
func HasDead(runtime string) bool {
	own, err := session.Open(os.Getuid(), runtime)
	if err != nil {
		return false
	}
	defer own.Close()
	dirs := session.OpenAll(os.Getuid(), runtime)
	defer session.CloseAll(dirs)
	return own.SweepDue() && slices.ContainsFunc(dirs, (*session.Directory).HasDead)
}

// Sweep ends the user's recorded sessions whose supervisor is dead, with their containers, and nothing else. It removes what
// dead hosts of shared servers have left on disk. It returns what it has found of these sessions: nothing while another sweep is
// under way, or within a minute of it. Where no lock can be made, as on a full disk, it sweeps without.
func Sweep(runtime string, grace teardown.Grace) ([]Finding, error) {
	own, err := session.Open(os.Getuid(), runtime)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	lock, err := own.TakeSweep()
	switch {
	case errors.Is(err, session.ErrHeld):
		return nil, nil
	case err == nil:
		defer lock.Release()
	}
	h, err := gather(runtime, Engines{OnlyRecorded: true}, func(error) {})
	if err != nil {
		return nil, err
	}
	h.tidySockets(runtime, func(error) {})
	dead := slices.DeleteFunc(find(h, Rules{}), func(f Finding) bool { return f.Class != classRecord || f.UID != os.Getuid() })
	return dead, endFindings(dead, false, grace, h.Since)
}
