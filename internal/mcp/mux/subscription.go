package mux

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"mcp-tether/internal/mcp"
)

// Subscriptions to resources (up to 2025-11-25, server/resources, "Subscriptions"). The server gets each subscribe, and
// unsubscribe from the last subscriber only. It has them in this order, so what it knows follows from what it was sent.

// subscribe takes a request to subscribe or to unsubscribe.
func (m *Mux) subscribe(c *client, r request, k *call) {
	m.open(k)
	if k.method == mcp.MethodSubscribe {
		c.uris[k.target] = k.n
	} else if delete(c.uris, k.target); m.hasSubscriber(k.target) {
		m.close(k)
		m.toClient(c, mcp.PingReply(k.id))
		return
	}
	m.send(k, m.line(r, k, mcp.Edit{}))
}

// hasSubscriber reports whether a client is subscribed to a resource, or about to be.
func (m *Mux) hasSubscriber(uri string) bool {
	return slices.ContainsFunc(m.clients, func(c *client) bool { return c.uris[uri] > 0 })
}

// allSubscribed are the resources that any client is subscribed to, in the order of the requests.
func (m *Mux) allSubscribed() (uris []string) {
	order := map[string]int64{}
	for _, c := range m.clients {
		for uri, n := range c.uris {
			if order[uri] == 0 {
				uris = append(uris, uri)
			}
			order[uri] = max(order[uri], n)
		}
	}
	sort.Slice(uris, func(a, b int) bool { return order[uris[a]] < order[uris[b]] })
	return uris
}

// subscribed takes the server's answer to subscribe. The client may have subscribed anew since.
func (m *Mux) subscribed(k *call, msg mcp.Message) {
	for _, c := range m.clients {
		if msg.IsError && (c.uris[k.target] == k.n || k.own) { // A new server refuses what an earlier one had.
			delete(c.uris, k.target)
		}
	}
	if !msg.IsError {
		m.server.subscribed[k.target] = true
	}
	m.deliver(k, msg, mcp.Edit{})
	if m.server.subscribed[k.target] && !m.hasSubscriber(k.target) && !m.unsubscribes(k.target) { // Who had asked has left, or was refused.
		m.unsubscribe(k.target)
	}
}

// unsubscribe ends a subscription that no client has any more.
func (m *Mux) unsubscribe(uri string) {
	m.askOwn(mcp.MethodUnsubscribe, uri, fmt.Sprintf(`{"uri":%s}`, mcp.Quote(uri)))
}

// unsubscribeAll ends the subscriptions of a client that has left, where no other has them.
func (m *Mux) unsubscribeAll(c *client) {
	for _, uri := range slices.Sorted(maps.Keys(c.uris)) {
		if !m.hasSubscriber(uri) {
			m.unsubscribe(uri)
		}
	}
}

// updated passes the news of a resource to its subscribers. The resource "might be a sub-resource of the one that the
// client actually subscribed to" (2025-11-25, schema, ResourceUpdatedNotificationParams). The server may also spell the
// uri in another way. Then all subscribers that may be meant get the news.
func (m *Mux) updated(msg mcp.Message, uri string) {
	line := mcp.Splice(msg.Raw)
	_ = m.toSubscribers(line, func(subscribed string) bool { return strings.HasPrefix(uri, subscribed) }) || m.unsubscribes(uri) ||
		m.toSubscribers(line, func(string) bool { return true })
}

// unsubscribes reports whether the server has not yet said that it has ended a subscription.
func (m *Mux) unsubscribes(uri string) bool {
	for _, k := range m.calls {
		if k.method == mcp.MethodUnsubscribe && k.target == uri {
			return true
		}
	}
	return false
}

// toSubscribers gives a line to each client that is subscribed to a resource that may be meant.
func (m *Mux) toSubscribers(line []byte, meant func(subscribed string) bool) (found bool) {
	for _, c := range m.clients {
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
