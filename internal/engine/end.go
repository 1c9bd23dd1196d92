package engine

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// End ends everything that belongs to the claim. It looks, ends what it finds, and looks again until nothing is left.
// It also waits until the engine cannot carry out a create of the session any more. It gives up when the
// context is done, and returns at once if no engine is there. It returns the last result of each target. The error says
// what may be left; it is nil if nothing is.
func (c Claim) End(ctx context.Context, cl Client, grace time.Duration) (ended []Result, err error) {
	if c.Complete && c.Ledger.Empty() {
		return nil, nil
	}
	var all lastResults
	for pause := time.Duration(0); ; pause = min(max(2*pause, firstPause), maxPause) {
		mine, _, lookErr := c.Look(ctx, cl)
		if lookErr == nil {
			all.markVanished(mine)
		}
		mine = all.withoutFinal(mine)
		all.add(EndTargets(ctx, cl, mine, grace))
		open := c.open(all.results, time.Now())
		if lookErr == nil && len(mine) == 0 && open == nil {
			return all.results, c.left(all.failed())
		}
		if isAbsent(lookErr) || !sleep(ctx, pause) {
			return all.results, c.left(lookErr, all.failed(), open, context.Cause(ctx))
		}
	}
}

// HadGrace reports whether all that the claim may still contain has had its grace period, as the results of an End show.
func (c Claim) HadGrace(ended []Result) bool {
	isNew := func(r *Result) bool { return r.Kind == Container && !r.Done && !r.asked }
	return c.Complete && len(c.Ledger.pending) == 0 && len(ended) > 0 && !anyOf(ended, isNew)
}

// anyOf is slices.ContainsFunc without a copy of each.
func anyOf[T any](all []T, is func(*T) bool) bool {
	for i := range all {
		if is(&all[i]) {
			return true
		}
	}
	return false
}

// openTime is how long after a request the engine may still carry out a create, though no client waits for it.
const openTime = 10 * time.Second

// open names the creates that the engine may still carry out; nil if there are none.
func (c Claim) open(found []Result, now time.Time) error {
	var open []string
	for _, o := range c.Ledger.pending {
		is := func(r *Result) bool { return r.Kind == o.Kind && r.Labels[LabelRequest] == o.Request }
		if now.Sub(o.At) < openTime && !anyOf(found, is) {
			open = append(open, fmt.Sprintf("create of a %s", o.Kind))
		}
	}
	if open == nil {
		return nil
	}
	return fmt.Errorf("the engine has not answered: %s", strings.Join(open, ", "))
}

// left wraps errors to say that something may be left; nil if there are none.
func (c Claim) left(errs ...error) error {
	if err := oneLine(errs...); err != nil {
		return fmt.Errorf("containers of session %s may be left: %w", c.Session, err)
	}
	return nil
}

// oneLine is errors.Join in one line, for a log.
func oneLine(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case all == nil:
			all = err
		case err != nil:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// lastResults holds the last result of each target.
type lastResults struct{ results []Result }

func (a *lastResults) add(results []Result) {
	for i := range results {
		if have := a.find(&results[i].Target); have != nil {
			*have = results[i]
			continue
		}
		a.results = append(a.results, results[i])
	}
}

// find returns the last result of a target; nil if there is none.
func (a *lastResults) find(t *Target) *Result {
	for i := range a.results {
		if r := &a.results[i]; r.Kind == t.Kind && r.ID == t.ID {
			return r
		}
	}
	return nil
}

// withoutFinal leaves out what was tried and does not go by waiting, as when containers of others use it. A container of
// the session that the engine made late may have been what was in the way.
func (a *lastResults) withoutFinal(mine []Target) []Target {
	late := anyOf(mine, func(t *Target) bool { return t.Kind == Container && a.find(t) == nil })
	n := 0
	for i := range mine {
		t := &mine[i]
		r := a.find(t)
		if r == nil || late || t.Kind != Network && !isFinal(r.Err) {
			mine[n] = *t
			n++
		}
	}
	return mine[:n]
}

// markVanished marks failed targets that no longer exist as done: something else has removed them.
func (a *lastResults) markVanished(mine []Target) {
	for i := range a.results {
		r := &a.results[i]
		there := func(t *Target) bool { return t.Kind == r.Kind && t.ID == r.ID }
		if r.Err != nil && !anyOf(mine, there) {
			r.Done, r.Err = true, nil
		}
	}
}

// failed joins the errors of the targets that are not done; nil if there are none.
func (a *lastResults) failed() error {
	errs := make([]error, len(a.results))
	for i := range a.results {
		errs[i] = a.results[i].Err
	}
	return oneLine(errs...)
}
