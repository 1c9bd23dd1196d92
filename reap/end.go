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
	for _, f := range ending {
		f.openLeaf()
		if f.group.Leaf != nil {
			defer f.group.Leaf.Close()
		}
		if f.Class != classContainer && !f.empty {
			batch.Groups = append(batch.Groups, &f.group)
		}
	}
	wait := endContainers(ending, grace)
	var err error
	if len(batch.Groups) > 0 {
		err = batch.End(grace)
	}
	wait()
	if err != nil {
		return err
	}
	for _, f := range ending {
		f.conclude()
	}
	return nil
}

// openLeaf opens the cgroup of a finding, if it is there.
func (f *Finding) openLeaf() {
	if f.leaf == "" {
		return
	}
	leaf, err := openLeaf(f.leaf, f.UID)
	switch {
	case err == nil:
		f.group.Leaf = leaf
	case !cgroup.IsGone(err):
		f.unseen = "its cgroup may be left: " + err.Error()
	}
}

// conclude removes what a dead session left on disk, unless something survived or may have.
func (f *Finding) conclude() {
	for _, s := range f.group.Survivors {
		f.Survivors = append(f.Survivors, fmt.Sprintf("pid %d (%s): %s", s.PID, s.Comm, s.Why))
	}
	if len(f.Survivors) == 0 {
		f.Survivors = stillAlive(f.Members)
	}
	if len(f.Survivors) == 0 && f.runsContainer && (f.Class == classSevered || f.Class == classDropped) {
		// The client is gone, and nothing says which container it ran.
		f.Survivors = []string{"its client has ended, the container may be there: look for it with docker ps"}
	}
	switch {
	case len(f.Survivors) > 0:
		f.Result = resultSurvived
		return
	case len(f.Members)+len(f.Containers) > 0:
		f.Result = resultEnded
	default:
		f.Result = resultRemoved
	}
	if f.stays {
		return
	}
	if err := f.tidy(); err != nil {
		f.Result, f.Survivors = resultFailed, []string{err.Error()}
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
func (f *Finding) tidy() error {
	var err error
	if f.group.Leaf != nil {
		// Only the record names a leaf in which no process is, and what is to be kept of one in which there are some.
		err = f.group.RemoveLeaf(removeTries)
	}
	if f.unseen != "" {
		err = errors.Join(err, errors.New(f.unseen))
	}
	if err != nil || f.stored == nil {
		return err // The record stays, for the next pass.
	}
	err = f.leaveSocket()
	if removed := f.stored.Dir.Remove(f.Session); !errors.Is(removed, session.ErrHeld) {
		err = errors.Join(err, removed)
	}
	return err
}
