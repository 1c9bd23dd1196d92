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

// Snapshot reads the process table: stat and owner of every process in sight, kernel threads left out. Of the user's processes it
// reads these variables, and of those and root's the command lines: what root says of itself counts for all.
//
// Entries that vanish or may not be read are missing: unknown. A process that keeps its readers waiting costs a moment. If
// there is no descriptor or memory to read a process that may be there, there is an error and no table: what is missing from a
// table would count as dead.
func Snapshot(uid int, names ...string) ([]Process, error) {
	list, err := proc.PIDs()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	return snapshotOf(list, uid, names)
}

// snapshotOf is a Snapshot of these processes.
func snapshotOf(list []int, uid int, names []string) ([]Process, error) {
	r, out := proc.Reader{Apart: true}, make([]Process, 0, len(list))
	for _, pid := range list {
		p := Process{UID: -1}
		var err error
		if p.Stat, err = r.Stat(pid); err == nil && !p.Kernel {
			// The files of a process that is not dumpable belong to root, its directory to the effective user (proc(5)).
			if p.UID, err = proc.UID(pid); err == nil {
				err = p.readWords(&r, uid, names)
			}
		}
		if proc.Starved(err) {
			return nil, fmt.Errorf("read the process table: %w", err)
		}
		if p.UID >= 0 {
			out = append(out, p)
		}
	}
	return out, nil
}

// readWords reads command line and environment, as far as they are wanted and the process's own word.
func (p *Process) readWords(r *proc.Reader, uid int, names []string) error {
	if p.Dead() {
		return nil
	}
	var argsErr, envErr, ownErr error
	if p.UID == uid || p.UID == 0 {
		p.Args, argsErr = r.Args(p.Stat)
	}
	if p.UID == uid {
		p.Env, envErr = r.Env(p.Stat, names...)
	}
	if p.Args != nil || p.Env != nil {
		var own bool
		if own, ownErr = proc.OwnWords(p.PID, p.UID); !own {
			p.Args, p.Env = nil, nil
		}
	}
	err := errors.Join(argsErr, envErr, ownErr)
	p.Stuck = errors.Is(err, proc.ErrKeptWaiting)
	return err
}
