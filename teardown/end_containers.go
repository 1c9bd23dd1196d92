package teardown

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-tether/container"
)

// createTime is how long after a create was asked for the engine may still carry it out, though nobody waits for it.
const createTime = 10 * time.Second

// Look asks an engine for what it has, and sorts it as Targets does. With an error, what is returned may be a part.
func (c Claim) Look(ctx context.Context, cl container.Client) (mine, doubtful []Target, err error) {
	have, err := c.list(ctx, cl)
	known := map[string]map[string]string{}
	images := func(id string) (map[string]string, error) {
		if labels, ok := known[id]; ok {
			return labels, nil
		}
		labels, imageErr := cl.ImageLabels(ctx, id)
		if imageErr == nil {
			known[id] = labels
		} else if !errors.Is(imageErr, container.ErrNotFound) {
			err = errors.Join(err, imageErr) // the verdict is for want of an answer
		}
		return labels, imageErr
	}
	mine, doubtful = c.Targets(have, images)
	return mine, doubtful, err
}

// list asks for the kinds of objects that the claim may be about, and when those that the session started began to run.
func (c Claim) list(ctx context.Context, cl container.Client) ([]container.Info, error) {
	have, err := cl.Containers(ctx)
	if err != nil {
		return nil, err
	}
	started := c.Ledger.Started()
	for i, x := range have {
		if !x.Running || !slices.ContainsFunc(started, func(s container.Started) bool { return s.ID == x.ID }) {
			continue
		}
		now, inspectErr := cl.Inspect(ctx, x.ID)
		if inspectErr == nil {
			have[i] = now
		} else if !errors.Is(inspectErr, container.ErrNotFound) {
			err = errors.Join(err, inspectErr)
		}
	}
	if c.concerns(container.Pod) {
		pods, podErr := cl.Pods(ctx)
		have, err = append(have, pods...), errors.Join(err, podErr)
	}
	if c.concerns(container.Network) {
		networks, netErr := cl.Networks(ctx)
		have, err = append(have, networks...), errors.Join(err, netErr)
	}
	return have, err
}

// concerns reports whether an object of a kind may belong to the claim.
func (c Claim) concerns(kind container.Kind) bool {
	is := func(o container.Object) bool { return o.Kind == kind }
	return !c.Complete || slices.ContainsFunc(c.Ledger.Objects(), is) || slices.ContainsFunc(c.Ledger.Pending(), is)
}

// End ends all that belongs to the claim: it looks, ends what it finds, and looks again until nothing is left and no
// create or start of the session may still be carried out, or the context is done. An engine that is not there ends it
// at once. The results are the last one of each target. The error says what may be left; it is nil when nothing is.
func (c Claim) End(ctx context.Context, cl container.Client, grace time.Duration) (ended []ContainerResult, err error) {
	if c.Complete && c.Ledger.Empty() {
		return nil, nil
	}
	var all outcome
	for rest := time.Duration(0); ; rest = min(max(2*rest, firstRest), longRest) {
		mine, _, lookErr := c.Look(ctx, cl)
		if lookErr == nil {
			all.vanished(mine)
		}
		mine = all.untried(mine)
		all.add(EndContainers(ctx, cl, mine, grace))
		open := c.open(all.results, time.Now())
		if lookErr == nil && len(mine) == 0 && open == nil {
			return all.results, c.left(all.failed())
		}
		if absent(lookErr) || !pass(ctx, rest) {
			return all.results, c.left(lookErr, all.failed(), open, context.Cause(ctx))
		}
	}
}

// open tells of what was asked for so lately that the engine may still do it, nil if there is none.
func (c Claim) open(found []ContainerResult, now time.Time) error {
	var open []string
	for _, o := range c.Ledger.Pending() {
		is := func(r ContainerResult) bool { return r.Kind == o.Kind && r.Labels[container.LabelRequest] == o.Request }
		if o.Kind != container.Volume && now.Sub(o.At) < createTime && !slices.ContainsFunc(found, is) {
			open = append(open, fmt.Sprintf("create of a %s", o.Kind))
		}
	}
	for _, s := range c.Ledger.Started() {
		is := func(r ContainerResult) bool { return r.ID == s.ID }
		if !s.Known && now.Sub(s.At) < createTime && !slices.ContainsFunc(found, is) {
			open = append(open, "start of "+s.ID)
		}
	}
	if open == nil {
		return nil
	}
	return fmt.Errorf("the engine has not answered: %s", strings.Join(open, ", "))
}

// left says of errors that something may be left; nil of none.
func (c Claim) left(errs ...error) error {
	if err := oneLine(errs...); err != nil {
		return fmt.Errorf("containers of session %s may be left: %w", c.Session, err)
	}
	return nil
}

// oneLine is errors.Join for a log.
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

// outcome holds the last result of each target.
type outcome struct{ results []ContainerResult }

func (a *outcome) add(results []ContainerResult) {
	for _, r := range results {
		if i := a.find(r.Target); i >= 0 {
			a.results[i] = r
			continue
		}
		a.results = append(a.results, r)
	}
}

func (a *outcome) find(t Target) int {
	return slices.IndexFunc(a.results, func(r ContainerResult) bool { return r.Kind == t.Kind && r.ID == t.ID })
}

// untried leaves out the networks that would not go: they are somebody else's to free.
func (a *outcome) untried(mine []Target) []Target {
	return slices.DeleteFunc(mine, func(t Target) bool {
		i := a.find(t)
		return t.Kind == container.Network && i >= 0 && a.results[i].Err != nil
	})
}

// vanished settles what failed, but is not there any more: somebody else has ended it.
func (a *outcome) vanished(mine []Target) {
	for i, r := range a.results {
		there := func(t Target) bool { return t.Kind == r.Kind && t.ID == r.ID }
		if r.Err != nil && !slices.ContainsFunc(mine, there) {
			a.results[i].Done, a.results[i].Err = true, nil
		}
	}
}

// failed joins what went wrong last, nil if nothing did.
func (a *outcome) failed() error {
	errs := make([]error, len(a.results))
	for i, r := range a.results {
		errs[i] = r.Err
	}
	return oneLine(errs...)
}
