package reap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-tether/internal/delegate"
	"mcp-tether/internal/session"
)

// Root looks after all users, and trusts none of them. So it makes the pass once more for each user that has something
// here, in a child that is that user. What the user has forged, hung or filled harms only the user's own pass. The
// child ends processes with the user's rights, and reads what the user may read. Root takes its report for the user's
// word (foreign.go).

// othersShare is the part of the time limit that the passes for others have together, in percent, or as much of it as
// root's own has left: that comes first.
const othersShare = 70

// reportShare is the part of what is left then that is kept for killing the last children and for the report.
const reportShare = 20

// childMargin is what the child of another user's pass is told less than it has: it must still report.
const childMargin = 500 * time.Millisecond

// askUsers adds what the other users' passes find, end or cannot do. It returns within their share of the time limit.
func (r *Report) askUsers(h *machine, o *Options, deadline time.Time) {
	here := others(h)
	words := slices.Clone(o.ForUsers)
	for _, id := range spare(h.Sessions) {
		words = append(words, "--"+SpareFlag+"="+id)
	}
	total := min(o.Timeout*othersShare/100, time.Until(deadline)*(100-reportShare)/100)
	all, left := delegate.InTurn(total, func(ctx context.Context, u delegate.User) answer {
		own := slices.Clip(words)
		if _, is := slices.BinarySearch(here, u.UID); !is {
			own = append(own, "--"+RecordsFlag)
		}
		if end, ok := ctx.Deadline(); ok {
			own = append(own, "--timeout="+max(time.Until(end)-childMargin, childMargin).String())
		}
		return ask(ctx, u, own)
	}, here, session.Users())
	for _, a := range all {
		r.take(a.By, a.Said)
	}
	if left > 0 {
		r.Incomplete = append(r.Incomplete, fmt.Sprintf("%d users: %v", left, delegate.ErrTooMany))
	}
}

// answer is what the pass of another user gave.
type answer struct {
	report Report
	err    error
}

// ask makes the pass of one user.
func ask(ctx context.Context, u delegate.User, words []string) answer {
	out, code, err := delegate.Run(ctx, u, words, delegate.MaxAnswer)
	if err != nil {
		return answer{err: err}
	}
	var report Report
	if err = delegate.Decode(out, &report); err != nil {
		return answer{err: err}
	}
	if code > 1 && len(report.Incomplete) == 0 {
		err = fmt.Errorf("its pass failed (exit code %d)", code)
	}
	return answer{report: report, err: err}
}

// incomplete notes that a user's pass did not do everything.
func (r *Report) incomplete(u delegate.User, err error) {
	r.Incomplete = append(r.Incomplete, fmt.Sprintf("user %s: %v", u.Name, err))
}

// others lists the users that have processes or cgroups of ours here. A user without either may have records all the
// same.
func others(h *machine) []int {
	uids := slices.Clone(h.Others)
	for i := range h.Procs {
		if p := &h.Procs[i]; !p.Dead() && p.UID != h.UID {
			uids = append(uids, p.UID)
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// ForgetAsRoot is Forget, for root: what the users have of the session is removed by children that are these users.
func ForgetAsRoot(runtime, id string, timeout time.Duration) error {
	err := Forget(runtime, id)
	if !errors.Is(err, ErrNoRecord) {
		return err
	}
	all, left := delegate.InTurn(timeout, func(ctx context.Context, u delegate.User) int {
		_, code, err := delegate.Run(ctx, u, []string{"reap", "--forget=" + id}, delegate.MaxAnswer)
		if err != nil {
			code = -1
		}
		return code
	}, session.Users())
	return forgotten(id, all, left)
}

// forgotten is the outcome of all the children, who brought their exit codes. Any user may write a record with another one's id. So that one was removed says
// nothing of the session that is meant, while another user holds it, or could not be asked.
func forgotten(id string, all []delegate.Answer[int], left int) error {
	var (
		errs []error
		done []string
	)
	for _, a := range all {
		switch a.Said {
		case 0:
			done = append(done, a.By.Name)
		case CodeHeld:
			errs = append(errs, fmt.Errorf("forget session %s of user %s: it lives, or may: %w", id, a.By.Name, session.ErrHeld))
		case CodeNoRecord:
		default:
			errs = append(errs, fmt.Errorf("forget session %s of user %s: %w (exit code %d)", id, a.By.Name, errNotKnown, a.Said))
		}
	}
	if left > 0 {
		errs = append(errs, fmt.Errorf("forget session %s of %d users: %w", id, left, delegate.ErrTooMany))
	}
	switch {
	case len(errs) > 0 && len(done) > 0:
		return fmt.Errorf("%w\nremoved: what user %s had of that id", errors.Join(errs...), strings.Join(done, ", user "))
	case len(errs)+len(done) == 0:
		return fmt.Errorf("forget session %s: %w", id, ErrNoRecord)
	}
	return errors.Join(errs...)
}

// errNotKnown says that a user's child did not say what the user has.
var errNotKnown = errors.New("it is not known whether there is a record")
