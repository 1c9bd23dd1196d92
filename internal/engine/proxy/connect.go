package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/http1"
)

// connectNetwork notes that another's container will be connected to a network of the session. The network can be
// removed only when the container is disconnected. The note is taken back if that fails, or when a client undoes it.
func (l *link) connectNetwork(x *exchange, head []byte, to route) bool {
	body := x.request.Body()
	object, raw, refused := l.readAhead(x.request, body)
	if refused != nil {
		return l.refuse(x.request, refused.status, refused.err)
	}
	var asked struct{ Container string }
	if !l.p.Attached && json.Unmarshal(object, &asked) == nil && asked.Container != "" {
		l.p.connect(x, to, asked.Container)
	}
	return l.forwardRest(x, append(head, raw...), body)
}

// connect makes a note if another's container will be connected to a network of the session. One that is in it already
// stays there.
func (p *Proxy) connect(x *exchange, to route, ref string) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	cl := engine.Client{Dial: p.Dial}
	networks, err := cl.Networks(ctx)
	for i := range networks {
		n := &networks[i]
		if n.Name != to.ref && !strings.HasPrefix(n.ID, to.ref) || !p.objects.has(engine.Network, n.ID) {
			continue
		}
		var c engine.Info
		var have []string
		if c, err = p.inspect(ref); err == nil && to.action == actionConnect {
			have, err = cl.ContainersWith(ctx, engine.Network, n.ID, n.Name)
		}
		if err != nil || slices.Contains(have, c.ID) || p.objects.has(engine.Container, c.ID) {
			continue
		}
		note := func(op engine.Op) {
			p.Note(engine.Note{Op: op, Kind: engine.Network, ID: n.ID, Container: c.ID})
		}
		if to.action == actionConnect {
			note(engine.OpConnect)
		}
		x.settle = func(o outcome) {
			if o.Success() != (to.action == actionConnect) {
				note(engine.OpParted)
			}
		}
	}
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		p.Warn(err)
	}
}

// readAhead reads a request's body, and returns what it carries and the bytes as they came. It may return only a part
// of a body that is too long, or whose client waits for the engine.
func (l *link) readAhead(r http1.Request, body *http1.Body) (data, raw []byte, refused *refusal) {
	if r.Continue {
		return nil, nil, nil
	}
	data, err := body.ReadAll(l.fromClient, maxCreate, &raw)
	switch {
	case errors.Is(err, http1.ErrMalformedChunk):
		return nil, nil, &refusal{badRequest, err}
	case errors.Is(err, errBusy):
		return nil, nil, &refusal{unavailable, err}
	}
	return data, raw, nil // if the client has hung up, Copy will say so
}
