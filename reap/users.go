package reap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// Root looks after all users, and trusts none of them. So it makes the pass once more for each user that has something
// here, in a child that is that user. What the user has forged, hung or filled harms only the user's own pass. The
// child ends processes with the user's rights, and reads what the user may read. Root takes its report for the user's
// word.

const (
	// reportShare is the part of the time, in percent, that is kept for killing the last children and for the report.
	reportShare = 20
	// childMargin is what the child of another user's pass is told less than it has: it must still report.
	childMargin = 500 * time.Millisecond
)

// askUsers adds what the other users' passes find, end or cannot do, within what is left of the time.
func (r *Report) askUsers(h *machine, o *Options, deadline time.Time) {
	users, limit := others(h), proc.ChildTime
	if o.Kill {
		limit += o.Dwell + o.Grace.Term + o.Grace.Kill
	}
	answers := argv.Each(users, time.Until(deadline)*(100-reportShare)/100, limit, func(ctx context.Context, uid int) answer {
		end, _ := ctx.Deadline()
		most := max(time.Until(end)-childMargin, childMargin)
		return ask(ctx, uid, append(slices.Clip(o.ForUsers), "--timeout="+most.String()))
	})
	for _, uid := range users {
		r.take(uid, answers[uid])
	}
	if left := len(users) - len(answers); left > 0 {
		r.Incomplete = append(r.Incomplete, fmt.Sprintf("%d users: %v: give more (--timeout)", left, argv.ErrNoTurn))
	}
}

// answer is what the pass of another user gave.
type answer struct {
	report Report
	err    error
}

// ask makes the pass of one user.
func ask(ctx context.Context, uid int, words []string) (a answer) {
	out, code, err := argv.RunAs(ctx, uid, words)
	// What it has reported before it was killed counts.
	if unread := argv.Decode(out, &a.report); err == nil {
		err = unread
	}
	if err == nil && code > 1 && len(a.report.Incomplete) == 0 {
		err = fmt.Errorf("its pass failed (exit code %d)", code)
	}
	a.err = err
	return a
}

// take adds the report of a user's pass.
func (r *Report) take(uid int, a answer) {
	name := display.User(uid)
	for i := range a.report.Findings {
		f := &a.report.Findings[i]
		if !slices.Contains(classes(), f.Class) || !slices.Contains(results(), f.Result) {
			a.err = errors.New("its pass did not report")
			continue
		}
		f.UID, f.User = uid, name
		r.Findings = append(r.Findings, *f)
	}
	for _, w := range a.report.Warnings[:min(len(a.report.Warnings), proc.MaxNamed)] {
		r.Warnings = append(r.Warnings, "user "+name+": "+w)
	}
	for _, w := range a.report.Incomplete[:min(len(a.report.Incomplete), proc.MaxNamed)] {
		r.Incomplete = append(r.Incomplete, "user "+name+": "+w)
	}
	if a.err != nil {
		r.Incomplete = append(r.Incomplete, fmt.Sprintf("user %s: %v (as that user: mcp-tether reap)", name, a.err))
	}
}

// others lists the users that have processes or directories of records here. Those with low numbers, whom root
// has made, come first: a user may have made up many thousand others (subuid(5)).
func others(h *machine) []int {
	uids := session.Users()
	for i := range h.Procs {
		if p := &h.Procs[i]; !p.Dead() {
			uids = append(uids, p.UID)
		}
	}
	slices.Sort(uids)
	return slices.DeleteFunc(slices.Compact(uids), func(uid int) bool { return uid == h.UID })
}
