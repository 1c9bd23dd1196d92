package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Result is what became of a target.
type Result struct {
	Target
	Done bool  // it is gone, or not the session's any more
	Err  error // why it is not done

	now     Info // its state before the stop signal
	stopped bool // it ended within its grace period
	asked   bool // it had all of that, or needed none
}

// The pace of requests to an engine.
const (
	maxParallel = 16 // objects that are worked on at the same time
	firstPause  = 10 * time.Millisecond
	maxPause    = 160 * time.Millisecond
	// finalTries is how often a removal is tried that does not succeed by waiting. Others may use a thing as long as they
	// like, and a filter changes its mind no sooner.
	finalTries = 4
)

var (
	// errStillThere says that an object was removed, but that the engine still knows it.
	errStillThere = errors.New("removed, but still there")
	// errShared says that containers of others are in a pod or network, or in the namespaces of a container.
	errShared = errors.New("a container that is not the session's is in it")
)

// EndTargets ends targets in parallel: containers first, then the pods and networks that they were in. It inspects each
// container once more. A running one gets its stop signal and up to grace to end, unless grace is 0. Then EndTargets
// removes it by force, with its anonymous volumes, until the engine no longer knows it. There is one result for each
// target, in their order. EndTargets returns when all targets are done, when the context is, or when no engine is there.
func EndTargets(ctx context.Context, cl Client, targets []Target, grace time.Duration) []Result {
	e := ender{cl: cl, targets: targets, grace: grace, slots: make(chan struct{}, maxParallel)}
	results := make([]Result, len(targets))
	for i := range targets {
		results[i].Target = targets[i]
	}
	for _, kind := range []Kind{Container, Pod, Network} {
		var all sync.WaitGroup
		for i := range results {
			if r := &results[i]; r.Kind == kind {
				all.Go(func() { e.endTarget(ctx, r) })
			}
		}
		all.Wait()
	}
	return results
}

// ender is one run of EndTargets.
type ender struct {
	cl      Client
	targets []Target
	grace   time.Duration
	slots   chan struct{}
}

// endTarget ends one target. It waits without a slot, so that all grace periods run in parallel.
func (e *ender) endTarget(ctx context.Context, r *Result) {
	if r.Kind == Container {
		e.inSlot(func() { e.askToStop(ctx, r) })
	}
	if r.Done || r.Err != nil {
		return
	}
	if r.now.Running && e.grace > 0 {
		grace, cancel := context.WithTimeout(ctx, e.grace)
		r.stopped = e.cl.AwaitStop(grace, r.ID) == nil
		cancel()
	}
	r.asked = ctx.Err() == nil
	e.inSlot(func() { e.forceEnd(ctx, r) })
}

func (e *ender) inSlot(do func()) {
	e.slots <- struct{}{}
	defer func() { <-e.slots }()
	do()
}

// askToStop inspects a container, and sends its stop signal to a running one.
func (e *ender) askToStop(ctx context.Context, r *Result) {
	r.retry(ctx, func() (err error) {
		r.now, err = e.cl.Inspect(ctx, r.ID)
		return err
	})
	if r.Done || r.Err != nil {
		return
	}
	if r.now.ID != r.ID {
		r.Done = true // another one with that name
		return
	}
	if !r.now.Running || e.grace <= 0 {
		return
	}
	// An error here would recur in force, which reports it.
	if r.now.Paused {
		_ = e.cl.Unpause(ctx, r.ID)
	}
	_ = e.cl.Signal(ctx, r.ID, cmp.Or(r.now.StopSignal, "SIGTERM"))
}

// forceEnd uses force until it succeeds.
func (e *ender) forceEnd(ctx context.Context, r *Result) {
	r.retry(ctx, func() error {
		err := e.force(ctx, r)
		if r.now.Paused && err != nil && !errors.Is(err, ErrNotFound) {
			_ = e.cl.Unpause(ctx, r.ID) // some engines cannot kill a paused container
		}
		return err
	})
	r.Done = r.Err == nil
}

// force removes an object until the engine does not know it.
func (e *ender) force(ctx context.Context, r *Result) error {
	if err := e.checkShared(ctx, r); err != nil {
		return err
	}
	if (r.Running || r.now.Running) && !r.stopped {
		_ = e.cl.Kill(ctx, r.Kind, r.ID) // or podman's removal waits
	}
	for range 2 {
		if err := e.cl.Remove(ctx, &r.Info); err != nil {
			return e.orShared(r, err)
		}
	}
	return errStillThere
}

// orShared returns errShared if the engine has refused to remove a container because of one that is not the session's. The
// session's own are removed at the same time, so then the refusal passes. An id that is cut off in the text says nothing.
func (e *ender) orShared(r *Result, err error) error {
	if !errors.Is(err, errDependents) {
		return err
	}
	noHex := func(c rune) bool { return !strings.ContainsRune("0123456789abcdef", c) }
	for _, id := range strings.FieldsFunc(err.Error(), noHex) {
		if len(id) == len(r.ID) && id != r.ID && !e.owns(id) {
			return fmt.Errorf("%w: %w", errShared, err)
		}
	}
	return err
}

// checkShared returns an error if containers that are not the session's are in a pod or network. They would be removed with
// the pod. From a network docker takes them away, if they do not run: they could not be started again.
func (e *ender) checkShared(ctx context.Context, r *Result) (err error) {
	var infra string
	var members []string
	switch r.Kind {
	case Pod:
		infra, members, err = e.cl.PodContainers(ctx, r.ID)
	case Network:
		members, err = e.cl.ContainersIn(ctx, r.ID, r.Name)
	case Container:
	}
	for _, id := range members {
		if id != infra && !e.owns(id) {
			return fmt.Errorf("%w: %s", errShared, id)
		}
	}
	return err
}

// owns reports whether a container is to be removed.
func (e *ender) owns(id string) bool {
	return anyOf(e.targets, func(t *Target) bool { return t.Kind == Container && t.ID == id })
}

// retry repeats a request until it succeeds, and sets Err if the context is done first. An object that the engine
// does not know is Done.
func (r *Result) retry(ctx context.Context, request func() error) {
	var last error
	for pause, tries := firstPause, 1; ; pause, tries = min(2*pause, maxPause), tries+1 {
		err := request()
		if errors.Is(err, ErrNotFound) {
			r.Done = true
			return
		}
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil {
			last = err // an earlier error of the engine says more than a timeout
		}
		isLast := tries == finalTries && (r.Kind == Network || isFinal(err))
		if isAbsent(err) || isLast || !sleep(ctx, pause) {
			r.Err = fmt.Errorf("%s %s: %w", r.Kind, cmp.Or(r.Name, r.ID), last)
			return
		}
	}
}

// isFinal reports whether waiting does not help.
func isFinal(err error) bool {
	return errors.Is(err, errShared) || errors.Is(err, ErrForbidden) || errors.Is(err, errRefused)
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
