package evidence

import (
	"errors"
	"fmt"

	"mcp-tether/internal/proc"
)

// Process is one entry of a Snapshot.
type Process struct {
	proc.Stat
	// UID is the effective user.
	UID int
	// Args is the command line, nil when it is empty, cannot be read, was not asked for or is not UID's (proc.OwnWords).
	Args []string
	// Env are the values of the variables that were asked for, "" for one that is not set; nil as Args.
	Env []string
	// Stuck says that the process kept its readers waiting: its command line and environment are unknown.
	Stuck bool
}

// Wanted says what a Snapshot reads of a process beside its stat and owner.
type Wanted struct {
	// Args and Env say, by a process's effective user, whether its command line and its environment are read.
	Args, Env func(uid int) bool
	// Names are the variables to look for.
	Names []string
}

// Snapshot reads the process table: stat and owner of every process in sight, kernel threads left out, and what else is
// wanted. Entries that vanish or may not be read are missing: unknown. A process that keeps its readers waiting costs a moment. If
// there is no descriptor or memory to read a process that may be there, there is an error and no table: what is missing from a
// table would count as dead.
func Snapshot(want *Wanted) ([]Process, error) {
	list, err := proc.PIDs()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	return snapshotOf(list, want)
}

// snapshotOf is a Snapshot of these processes.
func snapshotOf(list []int, want *Wanted) ([]Process, error) {
	s := &snapshot{Wanted: want, out: make([]Process, 0, len(list))}
	s.r.Apart = true
	for _, pid := range list {
		if err := s.add(pid); err != nil {
			return nil, fmt.Errorf("read the process table: %w", err)
		}
	}
	return s.out, nil
}

// snapshot is a Snapshot while it is made.
type snapshot struct {
	*Wanted
	r   proc.Reader
	out []Process
}

// add reads a process, unless it is not in a Snapshot. The error says that it could not be read (proc.Starved).
func (s *snapshot) add(pid int) (err error) {
	var p Process
	if p.Stat, err = s.r.Stat(pid); err != nil || p.Kernel {
		return unlessUnknown(err)
	}
	// The files of a process that is not dumpable belong to root, its directory to the effective user (proc(5)).
	if p.UID, err = proc.UID(pid); err == nil {
		if err = p.readWords(&s.r, s.Wanted); err == nil {
			s.out = append(s.out, p)
		}
	}
	return unlessUnknown(err)
}

// readWords reads what else is wanted of a process. The error is as that of add.
func (p *Process) readWords(r *proc.Reader, want *Wanted) (err error) {
	if p.Dead() {
		return nil
	}
	if want.Args(p.UID) {
		p.Args, err = r.Args(p.Stat)
	}
	if !proc.Starved(err) && want.Env(p.UID) {
		var envErr error
		p.Env, envErr = r.Env(p.Stat, want.Names...)
		err = errors.Join(err, envErr)
	}
	p.Stuck = errors.Is(err, proc.ErrKeptWaiting)
	if p.Args == nil && p.Env == nil {
		return unlessUnknown(err)
	}
	own, wordsErr := r.OwnWords(p.PID, p.UID)
	if !own {
		p.Args, p.Env = nil, nil
	}
	return unlessUnknown(errors.Join(err, wordsErr))
}

// unlessUnknown drops an error that says something about the process: it has ended, or may not be read.
func unlessUnknown(err error) error {
	if proc.Starved(err) {
		return err
	}
	return nil
}
