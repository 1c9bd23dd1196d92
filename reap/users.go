package reap

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	all, left := delegate.Users(append(session.Users(), here...))
	for _, u := range left {
		r.incomplete(u, delegate.ErrTooMany)
	}
	words := slices.Clone(o.ForUsers)
	for _, id := range spare(h.Sessions) {
		words = append(words, "--"+SpareFlag+"="+id)
	}
	answers := make([]answer, len(all))
	total := min(o.Timeout*othersShare/100, time.Until(deadline)*(100-reportShare)/100)
	delegate.Each(all, total, func(ctx context.Context, i int, u delegate.User) {
		own := slices.Clip(words)
		if !slices.Contains(here, u.UID) {
			own = append(own, "--"+RecordsFlag)
		}
		if end, ok := ctx.Deadline(); ok {
			own = append(own, "--timeout="+max(time.Until(end)-childMargin, childMargin).String())
		}
		answers[i] = ask(ctx, u, own)
	})
	for i, u := range all {
		r.take(u, answers[i])
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
	return answer{report, err}
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
	if !errors.Is(err, errNoRecord) {
		return err
	}
	users, _ := delegate.Users(session.Users())
	codes := make([]int, len(users))
	delegate.Each(users, timeout, func(ctx context.Context, i int, u delegate.User) {
		_, code, err := delegate.Run(ctx, u, []string{"reap", "--forget=" + id}, delegate.MaxAnswer)
		if codes[i] = code; err != nil {
			codes[i] = -1
		}
	})
	if slices.Contains(codes, 0) {
		return nil
	}
	if i := slices.Index(codes, CodeHeld); i >= 0 {
		return fmt.Errorf("forget session %s of user %s: it lives, or may: %w", id, users[i].Name, session.ErrHeld)
	}
	return err
}
