package mux

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-tether/mcp"
)

// watch is the subscription to a resource (up to 2025-11-25, server/resources, "Subscriptions"). The server has one for all
// clients that have one.
type watch struct {
	clients []*client
	// on: the server has it. busy: a request about it is open, and those of clients wait in queue.
	on, busy bool
	// asking is the request of a client that is open.
	asking *call
	queue  []*call
}

// subscribe takes that request, or the opposite.
func (m *Mux) subscribe(c *client, r request, k *call) {
	if k.method == mcp.MethodSubscribe && len(c.uris) >= m.limits.Kept && !c.uris[k.target] {
		m.refuse(c, k.ids[0], codeInternal, fmt.Sprintf("%d resources are subscribed to already", len(c.uris)), k.batch)
		return
	}
	m.open(k)
	line := m.line(r, k, edit{})
	if k.target == "" { // The server will say what it thinks of it.
		m.send(k, line)
		return
	}
	w := m.watched[k.target]
	if w == nil {
		w = &watch{}
		m.watched[k.target] = w
	}
	if w.busy {
		w.queue = append(w.queue, k)
		k.keep(line)
		return
	}
	m.watchStep(w, k, line)
}

// watchStep does what a client asks for: the server is asked only for the first subscriber and the last.
func (m *Mux) watchStep(w *watch, k *call, line []byte) {
	c := k.client
	i := slices.Index(w.clients, c)
	switch {
	case k.method == mcp.MethodSubscribe && len(w.clients) > 0:
		if i < 0 {
			m.join(w, c, k.target)
		}
	case k.method == mcp.MethodUnsubscribe && (i < 0 && len(w.clients) > 0 || len(w.clients) > 1):
		m.leave(w, c, k.target)
	default:
		m.leave(w, c, k.target)
		w.busy, w.asking = true, k
		if k.method == mcp.MethodUnsubscribe {
			w.on = false
		}
		m.send(k, line)
		return
	}
	m.close(k)
	m.answer(k, resultLine(k.ids[0]))
}

func (m *Mux) join(w *watch, c *client, uri string) {
	w.clients = append(w.clients, c)
	c.uris[uri] = true
	m.note(c)
}

func (m *Mux) leave(w *watch, c *client, uri string) {
	w.clients = slices.DeleteFunc(w.clients, func(other *client) bool { return other == c })
	if c.uris[uri] {
		delete(c.uris, uri)
		m.note(c)
	}
}

// watchAnswered takes the server's answer about a subscription.
func (m *Mux) watchAnswered(k *call, msg mcp.Message) {
	w := m.watched[k.target]
	if w == nil {
		m.deliver(k, msg, edit{})
		return
	}
	if k.method == mcp.MethodSubscribe && !msg.IsError {
		w.on = true
		if k.client != nil && !k.cancelled && !slices.Contains(w.clients, k.client) {
			m.join(w, k.client, k.target)
		}
	}
	m.deliver(k, msg, edit{})
	w.busy, w.asking = false, nil
	m.watchNext(k.target, w)
}

// watchNext does what waits, and unsubscribes when nobody is left.
func (m *Mux) watchNext(uri string, w *watch) {
	for len(w.queue) > 0 && !w.busy {
		next := w.queue[0]
		w.queue = w.queue[1:]
		m.watchStep(w, next, next.take())
	}
	if len(w.clients) == 0 && w.on && !w.busy {
		w.on = false
		if m.takes() {
			w.busy = true
			m.askOwn(mcp.MethodUnsubscribe, uri, fmt.Sprintf(`{"uri":%s}`, mcp.Quote(uri)))
		}
	}
	m.tidy(uri, w)
}

// watchOwn subscribes for clients that have been told that they are.
func (m *Mux) watchOwn(uri string, w *watch) {
	w.busy = true
	m.askOwn(mcp.MethodSubscribe, uri, fmt.Sprintf(`{"uri":%s}`, mcp.Quote(uri)))
}

func (m *Mux) tidy(uri string, w *watch) {
	if len(w.clients) == 0 && !w.busy && len(w.queue) == 0 {
		delete(m.watched, uri)
	}
}

// watchDropped goes on after a call that the server does not have was given up.
func (m *Mux) watchDropped(k *call) {
	w := m.watched[k.target]
	if w == nil {
		return
	}
	if w.asking == k {
		w.busy, w.asking = false, nil
	}
	m.watchNext(k.target, w)
}

// unwatchAll ends the subscriptions of a client that has left.
func (m *Mux) unwatchAll(c *client) {
	for _, uri := range slices.Sorted(maps.Keys(c.uris)) {
		w := m.watched[uri]
		m.leave(w, c, uri)
		m.watchNext(uri, w)
	}
}

// updated gives the news of a resource to its subscribers. It "might be a sub-resource of the one that the client actually
// subscribed to" (2025-11-25, schema, ResourceUpdatedNotificationParams), and the server may spell it otherwise; then those
// get it who may be meant.
func (m *Mux) updated(msg mcp.Message, uri string) {
	line := splice(msg.Raw)
	for _, meant := range []func(subscribed string) bool{
		func(subscribed string) bool { return subscribed == uri },
		func(subscribed string) bool { return strings.HasPrefix(uri, subscribed) },
		func(string) bool { return true },
	} {
		found := false
		for _, c := range m.order {
			for subscribed := range c.uris {
				if meant(subscribed) {
					m.toClient(c, line)
					found = true
					break
				}
			}
		}
		if found {
			return
		}
	}
}
