package teardown

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"mcp-tether/container"
)

// ContainerResult is what became of a target.
type ContainerResult struct {
	Target
	Done bool  // it is gone; or it is stopped, or not the session's any more
	Err  error // why it is not done

	now     container.Info // when it was asked to end
	stopped bool           // and did
}

// The pace of asking an engine.
const (
	atOnce    = 16 // objects that something is done with at the same time
	firstRest = 10 * time.Millisecond
	longRest  = 160 * time.Millisecond
	// netTries is how often a network is asked to go. Containers of others may use it for as long as they like.
	netTries = 4
)

// errStays says that an object was removed, but is still known.
var errStays = errors.New("removed, but still there")

// EndContainers ends targets, all of them at the same time: containers first, then the pods and networks that they were
// in. Each container is looked at once more; a running one gets its stop signal and up to grace to end, unless that is 0;
// then it is removed by force, with its anonymous volumes, until the engine does not know it any more, or, if it was
// there before the session, killed and left. There is one result for each target, in their order. It returns when all
// are done, or the context is, or the engine is not there.
func EndContainers(ctx context.Context, cl container.Client, targets []Target, grace time.Duration) []ContainerResult {
	e := ender{cl: cl, grace: grace, slots: make(chan struct{}, atOnce)}
	results := make([]ContainerResult, len(targets))
	for i, t := range targets {
		results[i].Target = t
	}
	for _, kind := range []container.Kind{container.Container, container.Pod, container.Network} {
		var all sync.WaitGroup
		for i := range results {
			if r := &results[i]; r.Kind == kind {
				all.Go(func() { e.one(ctx, r) })
			}
		}
		all.Wait()
	}
	return results
}

// ender is one run of EndContainers.
type ender struct {
	cl    container.Client
	grace time.Duration
	slots chan struct{}
}

// one ends one target. Waiting takes no slot, so that all graces pass together.
func (e *ender) one(ctx context.Context, r *ContainerResult) {
	if r.Kind == container.Container {
		e.inSlot(func() { e.ask(ctx, r) })
	}
	if r.Done || r.Err != nil {
		return
	}
	if r.now.Running && e.grace > 0 {
		grace, cancel := context.WithTimeout(ctx, e.grace)
		r.stopped = e.cl.AwaitStop(grace, r.ID) == nil
		cancel()
	}
	e.inSlot(func() { e.end(ctx, r) })
}

func (e *ender) inSlot(do func()) {
	e.slots <- struct{}{}
	defer func() { <-e.slots }()
	do()
}

// ask looks at a container, and sends a running one the signal that it wants to end by.
func (e *ender) ask(ctx context.Context, r *ContainerResult) {
	r.persist(ctx, func() (err error) {
		r.now, err = e.cl.Inspect(ctx, r.ID)
		return err
	})
	if r.Done || r.Err != nil {
		return
	}
	if r.now.ID != r.ID || r.Stop && !r.startedBySession(r.now) {
		r.Done = true // the name of another one, or not ours to stop
		return
	}
	if !r.now.Running || e.grace <= 0 {
		return
	}
	// What goes wrong here goes wrong again when force is used, and is told then.
	if r.now.Paused {
		_ = e.cl.Unpause(ctx, r.ID)
	}
	_ = e.cl.Signal(ctx, r.ID, stopSignal(r.now))
}

func stopSignal(x container.Info) string {
	if x.StopSignal == "" {
		return "SIGTERM"
	}
	return x.StopSignal
}

// end uses force, again and again.
func (e *ender) end(ctx context.Context, r *ContainerResult) {
	r.persist(ctx, func() error {
		err := e.force(ctx, r)
		if r.now.Paused && err != nil && !errors.Is(err, container.ErrNotFound) {
			_ = e.cl.Unpause(ctx, r.ID) // some engines kill nothing that is paused
		}
		return err
	})
	r.Done = r.Err == nil
}

// force kills what is to be stopped. All else it removes, until the engine does not know it.
func (e *ender) force(ctx context.Context, r *ContainerResult) error {
	if r.Stop {
		return e.cl.Stop(ctx, r.ID)
	}
	if (r.Running || r.now.Running) && !r.stopped {
		_ = e.cl.Kill(ctx, r.Kind, r.ID) // podman's removal would wait
	}
	for range 2 {
		if err := e.cl.Remove(ctx, r.Kind, r.ID); err != nil {
			return err
		}
	}
	return errStays
}

// persist asks the engine until it does what it is asked, and sets Err if it does not before the context is done. That
// the engine does not know the object makes it Done.
func (r *ContainerResult) persist(ctx context.Context, ask func() error) {
	var last error
	for rest, tries := firstRest, 1; ; rest, tries = min(2*rest, longRest), tries+1 {
		err := ask()
		if errors.Is(err, container.ErrNotFound) {
			r.Done = true
			return
		}
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil {
			last = err // that the time is up says less than what the engine said before
		}
		if absent(err) || r.Kind == container.Network && tries == netTries || !pass(ctx, rest) {
			r.Err = fmt.Errorf("%s %s: %w", r.Kind, r.title(), last)
			return
		}
	}
}

// title names an object for people.
func (t Target) title() string {
	if t.Name == "" {
		return t.ID
	}
	return t.Name
}

// absent reports whether nobody listens where the engine did.
func absent(err error) bool {
	return errors.Is(err, container.ErrUnreachable) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT))
}

// pass lets time pass, unless the context is done.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
