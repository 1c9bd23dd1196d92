package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcp-tether/engine"
)

// inspectTimeout bounds an inspection by the proxy itself. A busy container can make it wait.
const inspectTimeout = 30 * time.Second

// start notes the start of a container that existed before the session and is not running, so that it is stopped when the
// session ends. A start of any other container is passed on without a note.
func (l *link) start(x *exchange, head []byte, to route) bool {
	if l.p.objects.has(engine.Container, to.ref) {
		return l.forward(x, head)
	}
	info, err := l.p.inspect(to.ref)
	if errors.Is(err, engine.ErrNotFound) {
		return l.forward(x, head) // the engine will say so
	}
	if err != nil {
		err = fmt.Errorf("cannot tell whether container %.80q runs: %w", to.ref, err)
		l.p.Warn(err)
		return l.refuse(x.request, badGateway, err)
	}
	if !l.p.startIsOurs(info, to) {
		return l.forward(x, head)
	}
	if !x.enter(&l.p.gate) {
		return l.refuse(x.request, unavailable, errEnding)
	}
	l.p.Note(engine.Note{Op: engine.OpStart, Kind: engine.Container, ID: info.ID, Name: info.Name, At: time.Now()})
	x.settle = func(o outcome) { l.p.started(info, o) }
	return l.forward(x, head)
}

// startIsOurs reports whether a container that the session did not create will run because of this start. That includes a
// restart of a container that the session started: the time of its last start proves whose it is.
func (p *Proxy) startIsOurs(c engine.Info, to route) bool {
	switch {
	case p.objects.has(engine.Container, c.ID):
		return false
	case c.Running:
		return to.restart && p.objects.hasStarted(c.ID)
	}
	return !p.Attached || p.objects.isAttached(c)
}

func (p *Proxy) inspect(ref string) (engine.Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	return engine.Client{Dial: p.Dial}.Inspect(ctx, ref)
}

// started notes the outcome of a start, unless it cannot be known. After a restart that failed the container may be
// running.
func (p *Proxy) started(before engine.Info, o outcome) {
	kept := engine.Note{Op: engine.OpKept, Kind: engine.Container, ID: before.ID}
	if !o.Success() && !before.Running {
		p.Note(kept)
		return
	}
	after, err := p.inspect(before.ID)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		p.Note(kept) // it has ended already, and was removed
	case err != nil:
		p.Warn(fmt.Errorf("cannot tell when container %s was started: %w", before.ID, err))
	case !o.Success() && !after.Running:
		p.Note(kept)
	default:
		p.objects.start(after.ID)
		p.Note(engine.Note{
			Op: engine.OpStarted, Kind: engine.Container, ID: after.ID, Name: after.Name,
			Started: after.StartedAt.Format(time.RFC3339Nano), Restarts: after.Restarts, At: time.Now(),
		})
	}
}
