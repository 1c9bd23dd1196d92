package mux

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-tether/internal/mcp"
)

// watch is the subscription to a resource (up to 2025-11-25, server/resources, "Subscriptions"). The server has one
// subscription for all clients that have one.
type watch struct {
	clients []*client
	// on: the server has it. busy: a request about it is open, and those of clients wait in queue.
	on, busy bool
	// asking is the open request, if it is a client's.
	asking *call
	queue  []*call
}

// subscribe takes a request to subscribe or to unsubscribe.
func (m *Mux) subscribe(c *client, r request, k *call) {
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
	case k.method == mcp.MethodSubscribe && w.on:
		if i < 0 {
			m.join(w, c, k.target)
		}
	case k.method == mcp.MethodUnsubscribe && (i < 0 && len(w.clients) > 0 || len(w.clients) > 1):
		m.leave(w, c, k.target)
	default:
		w.busy, w.asking = true, k
		if k.method == mcp.MethodUnsubscribe {
			m.leave(w, c, k.target)
		}
		m.send(k, line)
		return
	}
	m.close(k)
	m.answer(k, resultLine(k.id))
}

func (m *Mux) join(w *watch, c *client, uri string) {
	w.clients = append(w.clients, c)
	c.uris[uri] = true
}

func (m *Mux) leave(w *watch, c *client, uri string) {
	w.clients = slices.DeleteFunc(w.clients, func(other *client) bool { return other == c })
	delete(c.uris, uri)
}

// watchAnswered takes the server's answer about a subscription.
func (m *Mux) watchAnswered(k *call, msg mcp.Message) {
	w := m.watched[k.target]
	if w == nil {
		m.deliver(k, msg, edit{})
		return
	}
	switch {
	case k.method == mcp.MethodUnsubscribe:
	case msg.IsError && k.own:
		for _, c := range slices.Clone(w.clients) {
			m.leave(w, c, k.target)
		}
	case msg.IsError && k.client != nil:
		m.leave(w, k.client, k.target)
	case !msg.IsError:
		w.on = true
		if k.client != nil && !slices.Contains(w.clients, k.client) {
			m.join(w, k.client, k.target)
		}
	}
	m.deliver(k, msg, edit{})
	w.busy, w.asking = false, nil
	m.watchNext(k.target, w)
}

// watchNext does what waits. Then it gives the server a subscription if a client has one, and ends it otherwise.
func (m *Mux) watchNext(uri string, w *watch) {
	for len(w.queue) > 0 && !w.busy {
		next := w.queue[0]
		w.queue = w.queue[1:]
		m.watchStep(w, next, next.take())
	}
	if wanted := len(w.clients) > 0; !w.busy && wanted != w.on && m.acceptsCalls() {
		w.busy = true
		method := mcp.MethodUnsubscribe
		if wanted {
			method = mcp.MethodSubscribe
		}
		m.askOwn(method, uri, fmt.Sprintf(`{"uri":%s}`, mcp.Quote(uri)))
	}
	m.tidy(uri, w)
}

// watchAll goes on with each resource after a time in which the server took no requests.
func (m *Mux) watchAll() {
	for _, uri := range slices.Sorted(maps.Keys(m.watched)) {
		m.watchNext(uri, m.watched[uri])
	}
}

func (m *Mux) tidy(uri string, w *watch) {
	if len(w.clients) == 0 && !w.on && !w.busy && len(w.queue) == 0 {
		delete(m.watched, uri)
	}
}

// watchDropped goes on after a call was given up before the server had it.
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

// updated passes the news of a resource to its subscribers. The resource "might be a sub-resource of the one that the
// client actually subscribed to" (2025-11-25, schema, ResourceUpdatedNotificationParams). The server may also spell the
// uri in another way. Then all subscribers that may be meant get the news.
func (m *Mux) updated(msg mcp.Message, uri string) {
	line := splice(msg.Raw)
	if w := m.watched[uri]; w != nil {
		for _, c := range w.clients {
			m.toClient(c, line)
		}
		return
	}
	if !m.toWatchers(line, func(subscribed string) bool { return strings.HasPrefix(uri, subscribed) }) {
		m.toWatchers(line, func(string) bool { return true })
	}
}

// toWatchers gives a line to each client that is subscribed to a resource that may be meant.
func (m *Mux) toWatchers(line []byte, meant func(subscribed string) bool) (found bool) {
	for _, c := range m.order {
		for uri := range c.uris {
			if meant(uri) {
				m.toClient(c, line)
				found = true
				break
			}
		}
	}
	return found
}
