package reap

import (
	"cmp"
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
	Reach   Reach
	// Warnings and Incomplete are what the preparation of the pass had to leave out, and what it could not read.
	Warnings, Incomplete []string
	// Servers is how many servers the user's clients are configured with.
	Servers int
	// Delegated says that root has started the pass for this user: it makes no directory where there is none.
	Delegated bool
	// ForUsers are the words with which root starts the same pass as each other user that has something here. A pass of
	// one user has none.
	ForUsers []string
	// Timeout is how long the pass may take. The passes of other users have a part of it.
	Timeout time.Duration
}

// Reach says which container engines a pass asks. The zero value means the one that the docker command would talk to,
// and those in the records of dead sessions.
type Reach struct {
	// Engine is the URL of one to ask instead of the docker command's.
	Engine string
	// Recorded leaves out all engines but the recorded ones, None these as well.
	Recorded, None bool
}

// errBusy says that another pass of this user is under way.
var errBusy = errors.New("another reap is under way: try again when it has ended")

// errMayOverlap says that it cannot be known whether another pass is under way.
var errMayOverlap = errors.New("passes may overlap: the directory for the lock does not answer")

// Pass reads the machine once, and ends what it may. The error says that it could not read it, or could not end anything;
// the report holds what was found all the same.
func Pass(o Options) (Report, error) {
	deadline := time.Now().Add(cmp.Or(o.Timeout, o.Dwell+time.Hour))
	r := Report{Version: display.SchemaVersion, Began: time.Now().UTC(), Killed: o.Kill, Findings: []Finding{}, Warnings: o.Warnings, Incomplete: o.Incomplete}
	warn := func(err error) { r.Warnings = append(r.Warnings, err.Error()) }
	if o.Kill {
		unlock, err := o.onlyPass(warn)
		if err != nil {
			return r, err
		}
		defer unlock()
	}
	h, err := gather(o.Runtime, o.Reach, warn)
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
	late = !settleDropped(own[n:], until, deadline.Add(-o.Grace.Term-o.Grace.Kill))
	return late, errors.Join(err, endFindings(own[n:], true, o.Grace, since))
}

// settleDropped waits, one time for all dropped servers, until the dwell is over. It spares those that are no longer
// dropped. If there is not that much time, it spares all of them and returns false.
func settleDropped(dropped []Finding, until, deadline time.Time) bool {
	if until.After(deadline) {
		for i := range dropped {
			dropped[i].Class, dropped[i].Advice = classSuspect, noTime
		}
		return false
	}
	time.Sleep(time.Until(until))
	for i := range dropped {
		if f := &dropped[i]; !f.still() {
			f.Class, f.Advice = classSuspect, "it was not as it had been when it was examined again: the next pass will tell"
		}
	}
	return true
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

// onlyPass keeps two passes of one user from overlapping.
func (o *Options) onlyPass(warn func(error)) (unlock func(), busy error) {
	if o.Delegated && !hasDirectory(o.Runtime) {
		return func() {}, nil
	}
	var (
		lease *session.Lease
		err   error
	)
	if !proc.InTime(proc.FilesTime, func() { lease, err = takePassLock(o.Runtime) }) {
		warn(errMayOverlap)
		return func() {}, nil
	}
	switch {
	case err == nil:
		return lease.Release, nil
	case errors.Is(err, session.ErrHeld):
		return nil, errBusy
	}
	warn(fmt.Errorf("passes may overlap: %w", err))
	return func() {}, nil
}

func takePassLock(runtime string) (*session.Lease, error) {
	dir, err := session.Open(os.Getuid(), runtime)
	if err != nil {
		return nil, err
	}
	return dir.TakeLock(passLock)
}

// passLock is the name of a pass's lease. It is no session id, so the two never clash.
const passLock = "reap"

// hasDirectory reports whether the user has a directory for sessions.
func hasDirectory(runtime string) bool {
	dirs := session.OpenAll(os.Getuid(), runtime)
	session.CloseAll(dirs)
	return len(dirs) > 0
}
