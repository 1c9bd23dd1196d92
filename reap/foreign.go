package reap

import (
	"errors"
	"fmt"
	"slices"

	"mcp-tether/internal/delegate"
	"mcp-tether/internal/proc"
)

// The report of another user's pass is only that user's word. It is bounded, it may speak of the user's own processes
// only, and none of its texts is shown as it is. Nor is it believed that a process has ended.

// maxForeign bounds how many warnings of one user are shown.
const maxForeign = 20

// take adds the report of a user's pass.
func (r *Report) take(u delegate.User, a answer) {
	if a.err != nil {
		r.incomplete(u, a.err)
	}
	for _, w := range a.report.Warnings[:min(len(a.report.Warnings), maxForeign)] {
		r.Warnings = append(r.Warnings, "user "+u.Name+": "+w)
	}
	for _, w := range a.report.Incomplete[:min(len(a.report.Incomplete), maxForeign)] {
		r.Incomplete = append(r.Incomplete, "user "+u.Name+": "+w)
	}
	var reader proc.Reader
	for _, f := range a.report.Findings {
		if err := f.foreign(&reader, u); err != nil {
			r.incomplete(u, err)
			continue
		}
		r.Findings = append(r.Findings, f)
	}
}

// errNoReport says that what came is no report.
var errNoReport = errors.New("its pass did not report")

// errNotTheirs says that a user's pass has named what is not the user's.
var errNotTheirs = errors.New("its pass names a process of another user")

// foreign makes a finding of another user's pass fit to be shown. The error says that it is no finding, or that it
// names a process of another user.
func (f *Finding) foreign(r *proc.Reader, u delegate.User) error {
	if !slices.Contains(classes(), f.Class) || !slices.Contains(results(), f.Result) {
		return errNoReport
	}
	f.UID, f.User = u.UID, u.Name
	f.AgeSeconds = max(0, f.AgeSeconds)
	alive := 0
	named := f.Members
	if !slices.Contains(named, f.Top) {
		named = append(slices.Clone(named), f.Top)
	}
	for _, id := range named {
		if r.Life(id) != proc.Alive {
			continue
		}
		if uid, err := proc.UID(id.PID); err == nil && uid != u.UID {
			return fmt.Errorf("%w (pid %d)", errNotTheirs, id.PID)
		}
		alive++
	}
	if alive > 0 && f.over() {
		f.Result = resultSurvived
		f.Survivors = append(f.Survivors, fmt.Sprintf("%d processes live that were reported as ended", alive))
	}
	if r.Life(f.Gateway.ID) != proc.Alive {
		f.Gateway.Command = ""
	}
	return nil
}
