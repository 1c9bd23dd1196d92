package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-tether/internal/engine"
)

// inspectTimeout bounds an inspection by the proxy itself. A busy container can make it wait.
const inspectTimeout = 30 * time.Second

// start notes the start of containers that existed before the session and are not running: of one container, or of
// those in a pod. They are stopped when the session ends. A start of any other container is passed on without a note.
func (l *link) start(x *exchange, head []byte, to route) bool {
	if to.imports {
		return l.restore(x, head)
	}
	if l.p.objects.has(to.kind, to.ref) && !(to.libpod && to.startsOthers()) {
		return l.forward(x, head)
	}
	found, alone, err := l.p.toStart(to)
	if to.restore && errors.Is(err, engine.ErrNotFound) {
		return l.restore(x, head) // perhaps from an image
	}
	if errors.Is(err, engine.ErrNotFound) {
		return l.forward(x, head) // the engine will say so
	}
	if err != nil {
		err = fmt.Errorf("cannot tell whether %s %.80q runs: %w", to.kind, to.ref, err)
		l.p.Warn(err)
		return l.refuse(x.request, badGateway, err)
	}
	if len(found) == 0 {
		return l.forward(x, head)
	}
	if !x.enter(&l.p.gate) {
		return l.refuse(x.request, unavailable, errEnding)
	}
	settled := false
	for i := range found {
		l.p.starting(&found[i], to)
	}
	x.settle = func(o outcome) {
		settled = true
		for i := range found {
			l.p.started(&found[i], to, o, alone)
		}
	}
	more := l.forward(x, head)
	for i := range found {
		if !settled {
			l.p.objects.settle(found[i].ID, true) // no outcome will come, and it may have succeeded
		}
	}
	return more
}

// toStart returns the containers that will run because of a request to start them. alone says that the request is about
// one container, which runs only if the request succeeds.
func (p *Proxy) toStart(to route) (found []engine.Info, alone bool, err error) {
	refs := []string{to.ref}
	if to.kind == engine.Pod {
		var pod string
		ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
		defer cancel()
		pod, _, refs, err = engine.Client{Dial: p.Dial}.PodContainers(ctx, to.ref)
		if err != nil || p.objects.has(engine.Pod, pod) {
			return nil, false, err
		}
	}
	if to.startsOthers() {
		if refs, err = p.needed(refs); err != nil {
			return nil, false, err
		}
	}
	for i, ref := range refs {
		c, err := p.inspect(ref)
		if errors.Is(err, engine.ErrNotFound) && (to.kind == engine.Pod || i > 0) {
			continue // it has left the pod since the pod was listed, or is needed no more
		}
		if err != nil {
			return nil, false, err
		}
		if p.startIsOurs(&c, to) {
			found = append(found, c)
		}
	}
	return found, to.kind == engine.Container && len(refs) == 1, nil
}

// startsOthers reports whether the start of a container may start others. Podman does that, and only in its own API can a
// container of the session be in another's pod, or require another's container.
func (to route) startsOthers() bool {
	return to.kind == engine.Container && !to.restart && !to.resume && !to.restore
}

// needed adds the containers that podman starts with others: that of their pod, and those that they require. (Start with
// recursive in libpod of containers/podman.)
func (p *Proxy) needed(refs []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	for i := 0; i < len(refs); i++ {
		more, err := engine.Client{Dial: p.Dial}.Needs(ctx, refs[i])
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return nil, err
		}
		for _, id := range more {
			if !slices.Contains(refs, id) {
				refs = append(refs, id)
			}
		}
	}
	return refs, nil
}

// startIsOurs reports whether a container that the session did not create will run because of this start. That includes a
// restart of a container that the session started: the time of its last start proves whose it is.
func (p *Proxy) startIsOurs(c *engine.Info, to route) bool {
	started, resumed := p.objects.hasStarted(c)
	switch {
	case p.objects.has(engine.Container, c.ID):
		return false
	case to.resume && (!c.Paused || started && !resumed):
		return false
	case to.resume:
	case c.Running:
		return to.restart && started
	}
	return !p.Attached || p.objects.isAttached(c)
}

func (p *Proxy) inspect(ref string) (engine.Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	return engine.Client{Dial: p.Dial}.Inspect(ctx, ref)
}

// starting notes a start before the engine is asked. A container that is resumed was started before, so its start is
// known, unless the request fails. It counts as resumed at once: perhaps no outcome comes.
func (p *Proxy) starting(c *engine.Info, to route) {
	p.objects.ask(c.ID)
	if to.resume {
		p.noteStart(startedNote(c, true))
		return
	}
	p.noteStart(&engine.Note{Op: engine.OpStart, Kind: engine.Container, ID: c.ID, Name: c.Name, At: time.Now()})
}

// startedNote says that a container runs, perhaps because it was paused and is resumed.
func startedNote(c *engine.Info, paused bool) *engine.Note {
	return &engine.Note{
		Op: engine.OpStarted, Kind: engine.Container, ID: c.ID, Name: c.Name, Paused: paused,
		Started: c.StartedAt.Format(time.RFC3339Nano), Restarts: c.Restarts, At: time.Now(),
	}
}

// noteStart notes a start or its outcome, and remembers it.
func (p *Proxy) noteStart(n *engine.Note) {
	p.objects.start(n)
	p.Note(*n)
}

// started notes the outcome of a start, unless it cannot be known. After a failed restart the container may be running.
// After a failed start or resume of several, alone is false, and some of them may be. It may also run because of another
// start of the session that was under way at the same time: two clients may have asked for it.
func (p *Proxy) started(before *engine.Info, to route, o outcome, alone bool) {
	n := &engine.Note{Op: engine.OpKept, Kind: engine.Container, ID: before.ID}
	shared := p.objects.settle(before.ID, o.Success())
	switch {
	case to.resume && o.Success():
		// It is noted once more, as the failure of another may have come in between.
		p.noteStart(startedNote(before, true))
		return
	case !o.Success() && !shared && alone && (to.resume || !before.Running):
		p.noteStart(n)
		return
	}
	after, err := p.inspect(before.ID)
	switch {
	case errors.Is(err, engine.ErrNotFound): // it has ended already, and was removed
	case err != nil:
		p.Warn(fmt.Errorf("cannot tell when container %s was started: %w", before.ID, err))
		return
	case to.resume && after.Paused && shared:
		return // The other resume may yet succeed.
	case !o.Success() && !after.Running, to.resume && after.Paused:
	case to.resume:
		return
	default:
		_, resumed := p.objects.hasStarted(&after) // a restart that failed may have left it as it was
		n = startedNote(&after, resumed)
	}
	p.noteStart(n)
}
