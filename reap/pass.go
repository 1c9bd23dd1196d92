package reap

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// Options are what the user may choose for a pass.
type Options struct {
	// Kill ends what is proven. With Unwrapped it ends the severed and the dropped as well.
	Kill, Unwrapped bool
	Rules           Rules
	Grace           teardown.Grace
	// Dwell is how long a server must have been dropped before it is ended.
	Dwell time.Duration
	// Runtime is $XDG_RUNTIME_DIR.
	Runtime string
	Engines Engines
	// Warnings and Incomplete are what the preparation of the pass had to leave out, and what it could not read.
	Warnings, Incomplete []string
	// Servers is how many servers the user's clients are configured with.
	Servers int
	// ForUsers are the words with which root starts the same pass as each other user that has something here. A pass of
	// one user has none.
	ForUsers []string
	// Timeout is how long the pass may take. The passes of other users have a part of it.
	Timeout time.Duration
}

// Engines says which container engines a pass asks. The zero value means the one that the docker command would talk to,
// and those in the records of dead sessions.
type Engines struct {
	// URL is that of one to ask instead of the docker command's.
	URL string
	// OnlyRecorded leaves out all but the recorded ones, None these as well.
	OnlyRecorded, None bool
}

// errBusy says that another pass of this user is under way.
var errBusy = errors.New("another reap is under way: try again when it has ended")

// Pass reads the machine once, and ends what it may. The error says that it could not read it, or could not end anything;
// the report holds what was found all the same.
func Pass(o Options) (Report, error) {
	deadline := time.Now().Add(o.Timeout)
	r := Report{Version: display.SchemaVersion, Began: time.Now().UTC(), Killed: o.Kill, Findings: []Finding{}, Warnings: o.Warnings, Incomplete: o.Incomplete}
	warn := func(err error) { r.Warnings = append(r.Warnings, err.Error()) }
	if o.Kill {
		unlock, err := o.onlyPass(warn)
		if err != nil {
			return r, err
		}
		defer unlock()
	}
	h, err := gather(o.Runtime, o.Engines, warn)
	if err != nil {
		return r, fmt.Errorf("read the machine: %w", err)
	}
	r.Looked = Looked{len(h.Procs), len(h.Sessions), len(h.Engines), o.Servers}
	r.Incomplete = append(r.Incomplete, h.Unknown...)
	own := find(h, o.Rules)
	for i := range own {
		own[i].Result = resultListed
		own[i].describe(h)
	}
	if o.Kill {
		if !h.Blind {
			h.tidySockets(o.Runtime, warn)
		}
		var late bool
		if late, err = o.end(own, deadline, h.Since); late {
			r.Incomplete = append(r.Incomplete, noTime)
		}
	}
	r.Findings = append(r.Findings, own...)
	if len(o.ForUsers) > 0 {
		// What hangs for others must not keep root's own from being ended.
		r.askUsers(h, &o, deadline)
	}
	return r, err
}

// noTime says that dropped servers were left for want of time.
const noTime = "there is no time to see whether a dropped server stays so: give more (--timeout)"

// end ends what is proven. The dropped servers come last, because they are waited for. Their dwell begins here, just after
// they were found. late says that there was no time for it.
func (o *Options) end(own []Finding, deadline time.Time, since uint64) (late bool, err error) {
	until := time.Now().Add(o.Dwell)
	sort.SliceStable(own, func(a, b int) bool { return own[a].Class != classDropped && own[b].Class == classDropped })
	n := slices.IndexFunc(own, func(f Finding) bool { return f.Class == classDropped })
	if n < 0 || !o.Unwrapped {
		return false, endFindings(own, o.Unwrapped, o.Grace, since)
	}
	err = endFindings(own[:n], true, o.Grace, since)
	late = settleDropped(own[n:], until, deadline.Add(-o.Grace.Term-o.Grace.Kill))
	return late, errors.Join(err, endFindings(own[n:], true, o.Grace, since))
}

// settleDropped waits, one time for all dropped servers, until the dwell is over. It spares those that are no longer
// dropped. If there is not that much time, it is late, and spares all of them.
func settleDropped(dropped []Finding, until, deadline time.Time) (late bool) {
	if late = until.After(deadline); !late {
		time.Sleep(time.Until(until))
	}
	for i := range dropped {
		if f := &dropped[i]; late {
			f.doubt(noTime)
		} else if !f.still() {
			f.doubt("it was not as it had been when it was examined again: the next pass will tell")
		}
	}
	return late
}

// tidySockets removes the sockets of killed supervisors, the links that were left for kept processes that have ended, and what
// killed hosts have left.
func (h *machine) tidySockets(runtime string, warn func(error)) {
	isUsed := func(id string) bool {
		return slices.ContainsFunc(h.Procs, func(p process) bool { return p.Mark == id })
	}
	dirs := session.OpenAll(os.Getuid(), runtime)
	defer session.CloseAll(dirs)
	for _, dir := range dirs {
		if err := dir.RemoveDeadSockets(isUsed); err != nil {
			warn(err)
		}
	}
	proc.InTime(proc.FilesTime, func() { // a home directory may never answer
		if state, err := session.FindState(os.Getuid(), os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME")); err == nil {
			_ = state.RemoveDeadSockets(isUsed)
			state.Close()
		}
	})
}

// onlyPass keeps two passes of one user from overlapping. Without a directory for sessions there is nothing to disturb.
func (o *Options) onlyPass(warn func(error)) (unlock func(), busy error) {
	var (
		lease *session.Lease
		err   error
	)
	if !proc.InTime(proc.FilesTime, func() { lease, err = takePassLock(o.Runtime) }) {
		warn(errors.New("passes may overlap: the directory for the lock does not answer"))
		return func() {}, nil
	}
	switch {
	case errors.Is(err, session.ErrHeld):
		return nil, errBusy
	case err != nil:
		warn(fmt.Errorf("passes may overlap: %w", err))
	case lease != nil:
		return lease.Release, nil
	}
	return func() {}, nil
}

// takePassLock takes the lock in the first of the user's directories: it makes none. The lease is nil where there is none.
func takePassLock(runtime string) (*session.Lease, error) {
	dirs, left := session.OpenAllBut(os.Getuid(), runtime)
	if len(dirs) == 0 {
		return nil, errors.Join(left...)
	}
	return dirs[0].TakeLock(passLock)
}

// passLock is the name of a pass's lease. It is no session id, so the two never clash.
const passLock = "reap"
