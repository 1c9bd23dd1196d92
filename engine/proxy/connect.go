package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"mcp-tether/engine"
	"mcp-tether/http1"
)

// connectNetwork notes that another's container will be connected to a network of the session. The network can be
// removed only when the container is disconnected.
func (l *link) connectNetwork(x *exchange, head []byte, to route) bool {
	body := x.request.Body()
	object, raw, refused := l.readAhead(x.request, body)
	if refused != nil {
		return l.refuse(x.request, refused.status, refused.err)
	}
	var asked struct{ Container string }
	if !l.p.Attached && json.Unmarshal(object, &asked) == nil && asked.Container != "" {
		l.p.connect(to.ref, asked.Container)
	}
	return l.forwardRest(x, append(head, raw...), body)
}

// connect makes a note if another's container will be connected to a network of the session.
func (p *Proxy) connect(network, ref string) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	networks, err := engine.Client{Dial: p.Dial}.Networks(ctx)
	for _, n := range networks {
		if n.Name != network && !strings.HasPrefix(n.ID, network) || !p.objects.has(engine.Network, n.ID) {
			continue
		}
		var c engine.Info
		if c, err = p.inspect(ref); err == nil && !p.objects.has(engine.Container, c.ID) {
			p.Note(engine.Note{Op: engine.OpConnect, Kind: engine.Network, ID: n.ID, Container: c.ID})
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
