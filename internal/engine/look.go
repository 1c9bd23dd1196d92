package engine

import (
	"context"
	"errors"
	"slices"
)

// Look lists the objects of an engine and sorts them like Targets. With an error the lists may be incomplete.
func (c Claim) Look(ctx context.Context, cl Client) (mine, doubtful []Target, err error) {
	have, err := c.list(ctx, cl)
	known := map[string]map[string]string{}
	images := func(id string) (map[string]string, error) {
		if labels, ok := known[id]; ok {
			return labels, nil
		}
		labels, imageErr := cl.ImageLabels(ctx, id)
		if imageErr == nil {
			known[id] = labels
		}
		err = join(err, imageErr, ErrNotFound) // so the verdict is preliminary
		return labels, imageErr
	}
	mine, doubtful = c.Targets(have, images)
	return mine, doubtful, err
}

// list lists the kinds of objects that the claim may contain.
func (c Claim) list(ctx context.Context, cl Client) ([]Info, error) {
	have, err := c.containers(ctx, cl)
	if have == nil && err != nil {
		return nil, err
	}
	for _, kind := range []Kind{Pod, Network} {
		var except error
		if !c.records(kind) {
			if c.Complete {
				continue
			}
			except = ErrForbidden // a filter in front of the engine has let none be made
		}
		ask := cl.Pods
		if kind == Network {
			ask = cl.Networks
		}
		more, moreErr := ask(ctx)
		have, err = append(have, more...), join(err, moreErr, except)
	}
	return have, err
}

// containers lists all containers. If the engine's list cannot be read, another's container may be the reason. So those on
// record are asked for one by one. The error says that there may be more.
func (c Claim) containers(ctx context.Context, cl Client) ([]Info, error) {
	have, err := cl.Containers(ctx)
	if !errors.Is(err, ErrBadResponse) {
		return have, err
	}
	have = []Info{}
	noID := false
	var inspectErr error
	for _, o := range c.Ledger.objects {
		isSame := func(x *Info) bool { return x.ID == o.ID }
		if o.Kind != Container || anyOf(have, isSame) {
			continue
		}
		noID = noID || isNoID(o.ID)
		now, oneErr := cl.Inspect(ctx, o.ID)
		if oneErr == nil {
			have = append(have, now)
		}
		inspectErr = join(inspectErr, oneErr, ErrNotFound)
	}
	// Of an id that is none it cannot be asked whether it is gone.
	if c.Complete && len(c.Ledger.pending) == 0 && !noID {
		return have, inspectErr
	}
	return have, oneLine(err, inspectErr)
}

// join joins errors. It leaves out an error that is no more than except.
func join(err, more, except error) error {
	if errors.Is(more, except) {
		return err
	}
	return oneLine(err, more)
}

// records reports whether objects of a kind are on record, or may have been made.
func (c Claim) records(kind Kind) bool {
	is := func(o Object) bool { return o.Kind == kind }
	return slices.ContainsFunc(c.Ledger.objects, is) || slices.ContainsFunc(c.Ledger.pending, is)
}
