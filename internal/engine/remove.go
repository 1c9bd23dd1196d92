package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Result is what became of an object.
type Result struct {
	Object
	Why string // the proof that it was the session's
	Err error  // why it is still there; nil if it is not
}

// The pace of requests to an engine.
const (
	maxParallel = 16 // objects that are worked on at the same time
	firstPause  = 10 * time.Millisecond
	maxPause    = 160 * time.Millisecond
	// finalTries is how often a removal is tried that does not succeed by waiting: others may use a thing as long as they like.
	finalTries = 6
	// lateCreates is how long it is looked for what the engine may still be creating for a client that is dead, and with it
	// the process that would have seen the outcome.
	lateCreates = 2 * time.Second
)

// ErrUnproven says that nothing is left but what has the label of the session, and is not proven to be the session's.
var ErrUnproven = errors.New("not removed")

// errShared says that containers of others are in a pod or network.
var errShared = errors.New("a container that is not the session's is in it")

// Remove ends what a session has created. It lists what has the session's label, ends what the owner owns, and looks again
// until nothing is left or ctx is done. A running container gets its stop signal and up to grace to end, and is then removed
// by force, with its own anonymous volumes. Pods and networks go when no container of others is in them. The results are
// of all that was met; the error says what may be left.
func Remove(ctx context.Context, cl Client, owner Owner, grace time.Duration) ([]Result, error) {
	r := removal{cl: cl, owner: owner, grace: grace, met: map[string]*target{}}
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		left, err := r.look(ctx)
		switch r.round(ctx, left); {
		case err == nil && len(left) == 0:
			if owner.Made != nil || time.Since(began) > lateCreates || !sleep(ctx, pause) {
				return r.results(), r.leftError(r.doubt)
			}
		case isAbsent(err), err == nil && r.hopeless(left), !sleep(ctx, pause):
			return r.results(), r.leftError(cmp.Or(err, context.Cause(ctx)))
		}
	}
}

// removal is one run of Remove.
type removal struct {
	cl    Client
	owner Owner
	grace time.Duration
	met   map[string]*target // by id
	order []*target
	doubt error // what has the label without the proof, if no process has seen what was made
}

// target is an object that is to go.
type target struct {
	Result
	asked bool // it had its grace period
	tries int
	said  error // why the last try came to nothing
}

// look lists what is left. What it does not meet any more is gone.
func (r *removal) look(ctx context.Context) ([]*target, error) {
	all, err := r.cl.Labelled(ctx, r.owner.Session)
	if err != nil {
		return nil, err
	}
	r.doubt = nil
	infra := map[string]bool{}
	for i := range all {
		infra[all[i].Infra] = true
	}
	for _, t := range r.order {
		t.Err = nil
	}
	var left []*target
	for i := range all {
		x := &all[i]
		owns, why := r.owner.Owns(x)
		switch {
		case x.Kind == Container && infra[x.ID]: // it goes with its pod
		case owns:
			left = append(left, r.meet(x, why))
		case why != "" && r.owner.Made == nil:
			r.doubt = fmt.Errorf("%s %s: %w: it %s", x.Kind, cmp.Or(x.Name, x.ID), ErrUnproven, why)
		}
	}
	return left, nil
}

func (r *removal) meet(x *Object, why string) *target {
	t := r.met[x.ID]
	if t == nil {
		t = &target{Result: Result{Why: why}}
		r.met[x.ID] = t
		r.order = append(r.order, t)
	}
	t.Object, t.Err = *x, errStillThere
	return t
}

// errStillThere says that an object was not removed in time.
var errStillThere = errors.New("it is still there")

// round tries to remove all targets, containers first.
func (r *removal) round(ctx context.Context, left []*target) {
	slots := make(chan struct{}, maxParallel)
	for _, kind := range []Kind{Container, Pod, Network} {
		var all sync.WaitGroup
		for _, t := range left {
			if t.Kind != kind {
				continue
			}
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.tries++
				if err := r.end(ctx, t); err != nil && !errors.Is(err, errNotFound) {
					// What the engine has said tells more than that the time is up.
					if t.said == nil || ctx.Err() == nil {
						t.said = fmt.Errorf("%s %s: %w", t.Kind, cmp.Or(t.Name, t.ID), err)
					}
					t.Err = t.said
				}
			})
		}
		all.Wait()
	}
}

// end tries to remove a target.
func (r *removal) end(ctx context.Context, t *target) error {
	switch t.Kind {
	case Pod:
		if err := r.shared(slices.DeleteFunc(slices.Clone(t.Members), func(id string) bool { return id == t.Infra })); err != nil {
			return err
		}
		return r.cl.RemovePod(ctx, t.ID)
	case Network:
		users, err := r.cl.ContainersIn(ctx, t.ID, t.Name)
		if err == nil {
			err = r.shared(users)
		}
		if err != nil {
			return err
		}
		return r.cl.RemoveNetwork(ctx, t.ID)
	case Container:
	}
	if t.Running() {
		if stopped := !t.asked && r.stop(ctx, t.ID); !stopped {
			_ = r.cl.Kill(ctx, t.ID) // or podman's removal waits for ten seconds
		}
		t.asked = true
	}
	return r.cl.RemoveContainer(ctx, t.ID)
}

// stop gives a container its grace period, and reports whether it has ended within it.
func (r *removal) stop(ctx context.Context, id string) bool {
	if r.grace <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, r.grace)
	defer cancel()
	return r.cl.Stop(ctx, id) == nil
}

// shared returns errShared if one of the containers is not to be removed.
func (r *removal) shared(ids []string) error {
	for _, id := range ids {
		if r.met[id] == nil {
			return fmt.Errorf("%w: %s", errShared, id)
		}
	}
	return nil
}

// hopeless reports whether nothing is left that goes by waiting.
func (r *removal) hopeless(left []*target) bool {
	return !slices.ContainsFunc(left, func(t *target) bool {
		final := t.Kind == Network || errors.Is(t.Err, errShared) || errors.Is(t.Err, errRefused) || errors.Is(t.Err, errDependents)
		return !final || t.tries < finalTries
	})
}

// results are those of all that was met, in the order in which it was.
func (r *removal) results() (out []Result) {
	for _, t := range r.order {
		out = append(out, t.Result)
	}
	return out
}

// leftError says in one line what may be left; nil if nothing is.
func (r *removal) leftError(why error) error {
	var all []string
	for _, t := range r.order {
		if t.Err != nil {
			all = append(all, t.Err.Error())
		}
	}
	switch {
	case all != nil && why != nil:
		why = fmt.Errorf("%s; %w", strings.Join(all, "; "), why)
	case all != nil:
		why = errors.New(strings.Join(all, "; "))
	case why == nil:
		return nil
	}
	return fmt.Errorf("containers of session %s may be left: %w", r.owner.Session, why)
}

// isAbsent reports whether no process listens where the engine did.
func isAbsent(err error) bool {
	return errors.Is(err, ErrUnreachable) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT))
}

// sleep waits for d, and reports false if the context is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
