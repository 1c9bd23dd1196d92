package mux

import (
	"bytes"
	"encoding/json"
	"fmt"

	"mcp-tether/internal/mcp"
)

// A subscription of 2026-07-28 is an open request, subscriptions/listen (basic/patterns/subscriptions). Once the server has
// acknowledged it, another server can be sent it again.

// subscriptionTells takes a notification about a subscription.
func (m *Mux) subscriptionTells(msg mcp.Message, id mcp.Span) {
	if k := m.callOf(msg.IDAt(id)); k != nil && k.client != nil && k.method == mcp.MethodListen {
		m.provesModern()
		if msg.Method == mcp.MethodAcknowledged && m.acknowledged(k, msg) {
			return
		}
		m.toClient(k.client, mcp.Splice(msg.Raw, replace(id, k.id)))
	}
}

// openListens are the open subscriptions that another server can be sent, in their order.
func (m *Mux) openListens() (all []*call) {
	for _, k := range m.calls {
		if k.agreed != nil && !k.sent {
			all = append(all, k)
		}
	}
	byNumber(all)
	return all
}

// acknowledged takes the news that a subscription is open, and reports whether the client knows that already.
func (m *Mux) acknowledged(k *call, msg mcp.Message) (again bool) {
	m.provesModern()
	m.server.answered = true
	if k.agreed == nil {
		k.agreed = bytes.Clone(mcp.ValueAt(msg.Raw, "params", "notifications"))
	}
	if again = k.again; again {
		m.listensAgain(k)
		m.noteRepeated(k)
	}
	return again
}

// listensAgain tells the client to look again at all that it has subscribed to: no server watched it meanwhile.
func (m *Mux) listensAgain(k *call) {
	var agreed struct {
		ToolsListChanged, PromptsListChanged, ResourcesListChanged bool
		ResourceSubscriptions                                      []string
	}
	_ = json.Unmarshal(k.agreed, &agreed)
	for i, watched := range []bool{agreed.ToolsListChanged, agreed.PromptsListChanged, agreed.ResourcesListChanged} {
		if watched {
			m.toClient(k.client, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s}}}`+"\n",
				changedMethod(kinds()[i]), mcp.MetaSubscription, k.id))
		}
	}
	for _, uri := range agreed.ResourceSubscriptions {
		m.toClient(k.client, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s},"uri":%s}}`+"\n",
			mcp.MethodUpdated, mcp.MetaSubscription, k.id, mcp.Quote(uri)))
	}
}
