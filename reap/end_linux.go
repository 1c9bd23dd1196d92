package reap

import (
	"errors"
	"fmt"
	"time"

	"mcp-tether/cgroup"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// End ends the findings that are proven, all at once, and notes what became of each. The error says that it could not
// even be tried.
func End(findings []Finding, unwrapped bool, grace teardown.Grace) error {
	var (
		batch  teardown.Batch
		ending []*Finding
	)
	for i := range findings {
		f := &findings[i]
		f.Result = "listed"
		if !f.Proven(unwrapped) {
			continue
		}
		ending = append(ending, f)
		batch.Groups = append(batch.Groups, group(f))
	}
	if len(ending) == 0 {
		return nil
	}
	if err := batch.End(grace); err != nil {
		return fmt.Errorf("end what was found: %w", err)
	}
	for i, f := range ending {
		f.conclude(batch.Groups[i])
	}
	return nil
}

func group(f *Finding) *teardown.Group {
	g := &teardown.Group{Seeds: f.Members, UID: f.UID, Keep: f.keep, Mark: session.EnvID, Session: f.Session}
	if f.anyUser {
		g.UID = -1
	}
	if f.leaf == "" {
		return g
	}
	if leaf, err := cgroup.Open(f.leaf); err == nil {
		g.Leaf = leaf
	}
	return g
}

// conclude removes what a dead session left on disk, unless somebody survived.
func (f *Finding) conclude(g *teardown.Group) {
	if g.Leaf != nil {
		defer g.Leaf.Close()
	}
	if len(g.Survivors) > 0 {
		f.Result = "survived"
		for _, s := range g.Survivors {
			f.Survivors = append(f.Survivors, fmt.Sprintf("pid %d (%s): %s", s.PID, s.Comm, s.Why))
		}
		return
	}
	f.Result = "ended"
	if len(f.Members) == 0 {
		f.Result = "removed"
	}
	if err := f.tidy(g); err != nil {
		f.Result = "failed"
		f.Survivors = append(f.Survivors, err.Error())
	}
}

// How often and how long to wait for the kernel to let go of a leaf whose last process has just ended.
const (
	removeTries = 100
	removePause = 10 * time.Millisecond
)

func (f *Finding) tidy(g *teardown.Group) error {
	var errs []error
	if g.Leaf != nil {
		// What is to be kept moves out of the way, as at the end of a session.
		for _, k := range g.Kept {
			_ = g.Leaf.Expel(k.PID)
		}
		err := g.Leaf.Remove()
		for n := 0; err != nil && n < removeTries; n++ {
			time.Sleep(removePause)
			err = g.Leaf.Remove()
		}
		errs = append(errs, err)
	}
	if f.record != "" {
		if err := session.Remove(f.record, f.Session); !errors.Is(err, session.ErrHeld) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
