package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A client of 2026-07-28 opens a subscription by a request that is answered when the subscription ends. The server
// acknowledges it with a notification that says which news it will send. All that the server needs to know is in the
// request, so another server can be sent it again (basic/patterns/subscriptions).

// subscriptionOf is the id of the request that a notification of the server belongs to, "" if there is none.
func subscriptionOf(m Message) string {
	id, _ := NormalID(bytes.TrimSpace(ValueAt(m.Raw, "params", "_meta", MetaSubscription)))
	return id
}

// acknowledged takes the news that a subscription is open.
func (c *Conversation) acknowledged(m Message) {
	open := c.client.requests.open[subscriptionOf(m)]
	if len(open) == 1 && open[0].method == MethodListen {
		open[0].agreed = bytes.Clone(ValueAt(m.Raw, "params", "notifications"))
		c.modern = c.modern || !c.handshake.answered // The request itself is not answered before its end.
	}
}

// restorable reports whether the request is a subscription that a new server can be sent again.
func (r request) restorable() bool { return r.line != nil && r.agreed != nil }

// listenAgain opens each subscription in a new server.
func (c *Conversation) listenAgain() []Step {
	var steps []Step
	for _, r := range c.client.requests.waiting() {
		if r.restorable() {
			steps = append(steps, Step{
				Line: asLine(r.line), AwaitID: r.id, Listen: true,
				Check: func(Message) ([]byte, error) { return r.news(), nil },
			})
		}
	}
	return steps
}

// news tells the client to look again at all that it has subscribed to: no server watched it meanwhile.
func (r request) news() (tell []byte) {
	var agreed struct {
		ToolsListChanged, PromptsListChanged, ResourcesListChanged bool
		ResourceSubscriptions                                      []string
	}
	_ = json.Unmarshal(r.agreed, &agreed)
	for i, watched := range []bool{agreed.ToolsListChanged, agreed.PromptsListChanged, agreed.ResourcesListChanged} {
		if watched {
			tell = fmt.Appendf(tell, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed","params":{"_meta":{%q:%s}}}`+"\n",
				kinds()[i], MetaSubscription, r.id)
		}
	}
	for _, uri := range agreed.ResourceSubscriptions {
		tell = fmt.Appendf(tell, `{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s},"uri":%s}}`+"\n",
			MethodUpdated, MetaSubscription, r.id, Quote(uri))
	}
	return tell
}

// EndsSubscription reports whether a message of the server ends a subscription that a new server could be sent again.
// It may be the last word of a server that is hibernated.
func (c *Conversation) EndsSubscription(m Message) bool {
	id := m.ID
	if m.Method == MethodCancelled {
		id = CancelledID(m)
	}
	open := c.client.requests.open[id]
	return len(open) == 1 && open[0].restorable() && (m.Kind == Response || m.Method == MethodCancelled)
}

// Completes reports whether a message of a new server is what a step waits for: the answer, or the acknowledgement of a
// subscription. ends says that the subscription has ended instead, which the client must be told.
func (s Step) Completes(m Message) (completes, ends bool) {
	switch {
	case s.AwaitID == "":
		return false, false
	case m.Kind == Response && m.ID == s.AwaitID:
		return true, s.Listen
	case s.Listen && m.Method == MethodCancelled && CancelledID(m) == s.AwaitID:
		return true, true
	}
	return s.Listen && m.Method == MethodAcknowledged && subscriptionOf(m) == s.AwaitID, false
}
