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
		} else if !errors.Is(imageErr, ErrNotFound) {
			err = errors.Join(err, imageErr) // so the verdict is preliminary
		}
		return labels, imageErr
	}
	mine, doubtful = c.Targets(have, images)
	return mine, doubtful, err
}

// list lists the kinds of objects that the claim may contain, with StartedAt for containers that the session started.
func (c Claim) list(ctx context.Context, cl Client) ([]Info, error) {
	have, err := cl.Containers(ctx)
	if err != nil {
		return nil, err
	}
	started := c.Ledger.Started()
	for i, x := range have {
		if !slices.ContainsFunc(started, func(s Started) bool { return s.ID == x.ID }) {
			continue
		}
		now, inspectErr := cl.Inspect(ctx, x.ID)
		if inspectErr == nil {
			have[i] = now
		} else if !errors.Is(inspectErr, ErrNotFound) {
			err = errors.Join(err, inspectErr)
		}
	}
	if c.concerns(Pod) {
		pods, podErr := cl.Pods(ctx)
		have, err = append(have, pods...), errors.Join(err, podErr)
	}
	if c.concerns(Network) {
		networks, netErr := cl.Networks(ctx)
		have, err = append(have, networks...), errors.Join(err, netErr)
	}
	for _, v := range c.Ledger.Carried() {
		volume, volumeErr := cl.Volume(ctx, v.Name)
		if volumeErr == nil {
			have = append(have, volume)
		} else if !errors.Is(volumeErr, ErrNotFound) {
			err = errors.Join(err, volumeErr)
		}
	}
	return have, err
}

// concerns reports whether objects of a kind may belong to the claim.
func (c Claim) concerns(kind Kind) bool {
	is := func(o Object) bool { return o.Kind == kind || kind == Network && o.Names != nil }
	return !c.Complete || slices.ContainsFunc(c.Ledger.Objects(), is) || slices.ContainsFunc(c.Ledger.Pending(), is)
}
