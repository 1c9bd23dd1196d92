package container

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// inspectTimeout bounds a question of our own to the engine. A container that is busy can keep it waiting.
const inspectTimeout = 30 * time.Second

// start notes a container that was there before the session, and did not run: the session is to stop it again. What the
// session created, and what runs already, is started as it is.
func (l *link) start(x *exchange, head []byte, to route) bool {
	if l.p.own.has(Container, to.ref) {
		return l.forward(x, head)
	}
	info, err := l.p.inspect(to.ref)
	if errors.Is(err, ErrNotFound) {
		return l.forward(x, head) // the engine will say so
	}
	if err != nil {
		err = fmt.Errorf("cannot tell whether container %.80q runs: %w", to.ref, err)
		l.p.Warn(err)
		return l.refuse(x.request, 502, err)
	}
	if !l.p.starts(info, to) {
		return l.forward(x, head)
	}
	if !x.through(&l.p.gate) {
		return l.refuse(x.request, 503, errEnding)
	}
	l.p.Note(Note{Op: OpStart, Kind: Container, ID: info.ID, Name: info.Name, At: time.Now()})
	x.settle = func(o outcome) { l.p.started(info, o) }
	return l.forward(x, head)
}

// starts tells whether it is this session, and nobody before it, that has a container run. A restart of one that the session
// started is such a start as well: when it was started is what proves whose it is.
func (p *Proxy) starts(c Info, to route) bool {
	switch {
	case p.own.has(Container, c.ID):
		return false
	case c.Running:
		return to.again && p.own.hasStarted(c.ID)
	}
	return !p.Attached || p.own.isAttached(c)
}

func (p *Proxy) inspect(ref string) (Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	return Client{Dial: p.Dial}.Inspect(ctx, ref)
}

// started notes what became of a start. Of one whose outcome cannot be known, nothing. A restart that failed may have left
// the container running.
func (p *Proxy) started(before Info, o outcome) {
	kept := Note{Op: OpKept, Kind: Container, ID: before.ID}
	if !o.success() && !before.Running {
		p.Note(kept)
		return
	}
	after, err := p.inspect(before.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		p.Note(kept) // it has ended, and gone, already
	case err != nil:
		p.Warn(fmt.Errorf("cannot tell when container %s was started: %w", before.ID, err))
	case !o.success() && !after.Running:
		p.Note(kept)
	default:
		p.own.start(after.ID)
		p.Note(Note{
			Op: OpStarted, Kind: Container, ID: after.ID, Name: after.Name,
			Started: after.StartedAt.Format(time.RFC3339Nano), At: time.Now(),
		})
	}
}

// attach remembers a container that a client stays with, where that decides.
func (p *Proxy) attach(to route) {
	if p.Attached {
		p.own.attach(to.ref)
	}
}

// remove has it noted when a client removes what the session created. Only an id will do: a name may be another's by now.
func (p *Proxy) remove(x *exchange, to route) {
	if !p.own.has(to.kind, to.ref) {
		return
	}
	x.settle = func(o outcome) {
		if o.success() {
			p.own.remove(to.kind, to.ref)
			p.Note(Note{Op: OpRemoved, Kind: to.kind, ID: to.ref})
		}
	}
}
