package reap

import (
	"errors"
	"fmt"
	"os"
	"time"

	"mcp-tether/describe"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// Options are what the user may choose for a pass.
type Options struct {
	// Kill ends what is proven, Unwrapped with it the severed as well.
	Kill, Unwrapped bool
	Rules           Rules
	Grace           teardown.Grace
	// Runtime is $XDG_RUNTIME_DIR.
	Runtime string
	Reach   Reach
}

// Reach says which container engines a pass looks at. The zero value means the one that the docker command would talk to,
// and those in the records of dead sessions.
type Reach struct {
	// Engine is the URL of one to look at instead of the docker command's.
	Engine string
	// Recorded leaves out all engines but the recorded ones, None these as well.
	Recorded, None bool
}

// errBusy says that another pass of this user is under way.
var errBusy = errors.New("another reap is under way")

// Pass looks at the host once, and ends what it may. The error says that it could not look, or could not end anything;
// the report holds what was found all the same.
func Pass(o Options) (Report, error) {
	r := Report{Version: describe.SchemaVersion, Began: time.Now().UTC(), Killed: o.Kill, Findings: []Finding{}, Warnings: []string{}}
	warn := func(err error) { r.Warnings = append(r.Warnings, err.Error()) }
	if o.Kill {
		unlock, err := onlyPass(o.Runtime, warn)
		if err != nil {
			return r, err
		}
		defer unlock()
	}
	h, err := gather(o.Runtime, o.Reach, warn)
	if err != nil {
		return r, fmt.Errorf("look at the host: %w", err)
	}
	r.Findings = append(r.Findings, find(h, o.Rules)...)
	for i := range r.Findings {
		r.Findings[i].Result = "listed"
		r.Findings[i].describe(h)
	}
	if o.Kill {
		tidySockets(o.Runtime, warn)
		err = endFindings(r.Findings, o.Unwrapped, o.Grace)
	}
	return r, err
}

// tidySockets removes the sockets of killed supervisors that could keep no record.
func tidySockets(runtime string, warn func(error)) {
	for _, place := range session.Dirs(os.Getuid(), runtime) {
		if place.Owner != os.Getuid() {
			continue
		}
		if err := session.RemoveDeadSockets(place.Dir); err != nil {
			warn(err)
		}
	}
}

// onlyPass keeps two passes of one user from overlapping.
func onlyPass(runtime string, warn func(error)) (unlock func(), err error) {
	dir, err := session.Dir(os.Getuid(), runtime)
	if err != nil {
		warn(fmt.Errorf("passes may overlap: %w", err))
		return func() {}, nil
	}
	lease, err := session.Take(dir, passLock)
	if errors.Is(err, session.ErrHeld) {
		return nil, errBusy
	}
	if err != nil {
		warn(fmt.Errorf("passes may overlap: %w", err))
		return func() {}, nil
	}
	return lease.Release, nil
}

// passLock is the name of a pass's lease. It is no session id, so it never meets one.
const passLock = "reap"

// HasDead reports whether the user has a session whose supervisor is dead. It reads no process table.
func HasDead(runtime string) bool {
	for _, place := range session.Dirs(os.Getuid(), runtime) {
		if place.Owner != os.Getuid() {
			continue
		}
		ids, _ := session.IDs(place.Dir)
		for _, id := range ids {
			if held, err := session.Held(place.Dir, id); err == nil && !held {
				return true
			}
		}
	}
	return false
}

// Sweep ends the user's recorded sessions whose supervisor is dead, with their containers, and nothing else.
func Sweep(runtime string, grace teardown.Grace) error {
	h, err := gather(runtime, Reach{Recorded: true}, func(error) {})
	if err != nil {
		return err
	}
	found := find(h, Rules{})
	own := found[:0]
	for _, f := range found {
		if f.Class == classRecord && f.UID == os.Getuid() {
			own = append(own, f)
		}
	}
	return endFindings(own, false, grace)
}
