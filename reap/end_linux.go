package reap

import (
	"errors"
	"fmt"

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
	g := &teardown.Group{Seeds: f.Members, UID: f.UID, Keep: f.keep}
	if f.leaf == "" {
		return g
	}
	if leaf, err := cgroup.Open(f.leaf); err == nil {
		g.Leaf = leaf
	}
	if f.Class == Cgroup && f.UID == 0 {
		g.UID = -1
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
	if err := f.tidy(g.Leaf); err != nil {
		f.Result = "failed"
		f.Survivors = append(f.Survivors, err.Error())
	}
}

func (f *Finding) tidy(leaf *cgroup.Leaf) error {
	var errs []error
	if leaf != nil {
		errs = append(errs, leaf.Remove())
	}
	if f.record != "" {
		if err := session.Remove(f.record, f.Session); !errors.Is(err, session.ErrHeld) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
