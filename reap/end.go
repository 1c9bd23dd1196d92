package reap

import (
	"errors"
	"fmt"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// maxAtOnce bounds how many findings with a cgroup are ended at once. Each takes three descriptors meanwhile, and a process
// may often have no more than 1024.
const maxAtOnce = 100

// endFindings ends all proven findings, their containers beside their processes, and notes what became of each. since is
// when the scan of the machine began, in clock ticks. The error says that some could not even be tried.
func endFindings(findings []Finding, unwrapped bool, grace teardown.Grace, since uint64) error {
	var ending []*Finding
	for i := range findings {
		f := &findings[i]
		f.Result = resultListed
		if !f.proven(unwrapped) {
			continue
		}
		if f.stuck != "" {
			f.Result, f.Survivors = resultFailed, []string{f.stuck}
			continue
		}
		ending = append(ending, f)
	}
	var errs error
	for len(ending) > 0 {
		n := portion(ending)
		if err := endAtOnce(ending[:n], grace, since); err != nil {
			errs = errors.Join(errs, fmt.Errorf("end what was found: %w", err))
		}
		ending = ending[n:]
	}
	return errs
}

// portion is how many of the findings are ended at once.
func portion(all []*Finding) int {
	leaves := 0
	for n, f := range all {
		if f.leaf != "" {
			leaves++
		}
		if leaves > maxAtOnce {
			return n
		}
	}
	return len(all)
}

// endAtOnce ends findings at once.
func endAtOnce(ending []*Finding, grace teardown.Grace, since uint64) error {
	batch := teardown.Batch{Since: since}
	groups := map[*Finding]*teardown.Group{}
	for _, f := range ending {
		if f.Class != classContainer {
			groups[f] = group(f)
			if !f.ended {
				batch.Groups = append(batch.Groups, groups[f])
			}
		}
	}
	wait := endContainers(ending, grace)
	var err error
	if len(batch.Groups) > 0 {
		err = batch.End(grace)
	}
	wait()
	if err != nil {
		for _, g := range groups {
			if g.Leaf != nil {
				g.Leaf.Close()
			}
		}
		return err
	}
	for _, f := range ending {
		f.conclude(groups[f])
	}
	return nil
}

// group is what package teardown is to end.
func group(f *Finding) *teardown.Group {
	g := &teardown.Group{Seeds: f.Members, Spared: f.spared, UID: f.onlyUser(), Keep: f.keep, Session: f.Session, Inherited: f.inherited, KeepNothing: f.nothing}
	if f.record != nil {
		g.Began = f.record.Started
	}
	if f.leaf == "" {
		return g
	}
	leaf, err := openLeaf(f.leaf, f.UID)
	switch {
	case err == nil:
		g.Leaf = leaf
	case !cgroup.IsGone(err):
		f.unseen = "its cgroup may be left: " + err.Error()
	}
	return g
}

// conclude removes what a dead session left on disk, unless something survived or may have. g is nil for containers alone.
func (f *Finding) conclude(g *teardown.Group) {
	if g == nil {
		g = &teardown.Group{}
	}
	if g.Leaf != nil {
		defer g.Leaf.Close()
	}
	for _, s := range g.Survivors {
		f.Survivors = append(f.Survivors, fmt.Sprintf("pid %d (%s): %s", s.PID, s.Comm, s.Why))
	}
	if len(f.Survivors) == 0 {
		f.Survivors = stillAlive(f.Members)
	}
	if len(f.Survivors) > 0 {
		f.Result = resultSurvived
		return
	}
	if f.boxed && (f.Class == classSevered || f.Class == classDropped) {
		// The client is gone, and nothing says which container it ran.
		f.Result = resultSurvived
		f.Survivors = append(f.Survivors, "its client has ended, the container may be there: look for it with docker ps")
		return
	}
	f.Result = resultEnded
	if len(f.Members)+len(f.Containers) == 0 {
		f.Result = resultRemoved
	}
	if f.stays {
		return
	}
	if err := f.tidy(g); err != nil {
		f.Result = resultFailed
		f.Survivors = append(f.Survivors, err.Error())
	}
}

// stillAlive checks the members once more, whatever package teardown has said of them: nothing that lives is reported
// as ended.
func stillAlive(members []proc.ID) []string {
	var r proc.Reader
	var out []string
	for _, id := range members {
		if life := r.Life(id); life != proc.Dead {
			out = append(out, fmt.Sprintf("pid %d is %s and was not touched", id.PID, life))
		}
	}
	return out
}

// removeTries bounds the wait for the kernel to let go of a leaf, in milliseconds.
const removeTries = 1000

// tidy removes leaf, socket and record.
func (f *Finding) tidy(g *teardown.Group) error {
	var errs []error
	if g.Leaf != nil {
		if err := g.RemoveLeaf(removeTries); err != nil {
			// Only the record names a leaf in which no process is, and what is to be kept of one in which there are some.
			errs = append(errs, err)
		}
	}
	if f.unseen != "" {
		errs = append(errs, errors.New(f.unseen))
	}
	if len(errs) > 0 {
		// The record stays, for the next pass.
		return errors.Join(errs...)
	}
	if f.dir != nil {
		errs = append(errs, f.leaveSocket(len(f.spared) > 0))
		if err := f.dir.Remove(f.Session); !errors.Is(err, session.ErrHeld) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
