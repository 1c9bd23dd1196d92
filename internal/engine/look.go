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
	for _, v := range c.Ledger.carried {
		volume, volumeErr := cl.Volume(ctx, v.Name)
		if volumeErr == nil {
			have = append(have, volume)
		}
		err = join(err, volumeErr, ErrNotFound)
	}
	return have, err
}

// containers lists all containers, with StartedAt for those that the session started. If the engine's list cannot be
// read, another's container may be the reason. So those on record are asked for one by one. The error says that there
// may be more.
func (c Claim) containers(ctx context.Context, cl Client) ([]Info, error) {
	have, err := cl.Containers(ctx)
	var inspect []string
	for _, s := range c.Ledger.started {
		inspect = append(inspect, s.ID)
	}
	if errors.Is(err, ErrBadResponse) {
		for _, o := range c.Ledger.objects {
			if o.Kind == Container && !slices.Contains(inspect, o.ID) {
				inspect = append(inspect, o.ID)
			}
		}
		have = make([]Info, len(inspect))
		for i, id := range inspect {
			have[i].ID = id // without a kind it belongs to nobody
		}
		// Of an id that is none it cannot be asked whether it is gone.
		if c.Complete && len(c.Ledger.pending) == 0 && !slices.ContainsFunc(inspect, isNoID) {
			err = nil
		}
	}
	for i := range have {
		if !slices.Contains(inspect, have[i].ID) {
			continue
		}
		now, inspectErr := cl.Inspect(ctx, have[i].ID)
		if inspectErr == nil {
			have[i] = now
		}
		err = join(err, inspectErr, ErrNotFound)
	}
	return have, err
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
	is := func(o Object) bool { return o.Kind == kind || kind == Network && o.Names != nil }
	return slices.ContainsFunc(c.Ledger.objects, is) || slices.ContainsFunc(c.Ledger.pending, is)
}
