package mux

import (
	"strconv"

	"mcp-tether/internal/mcp"
)

// clientTells takes a notification of a client.
func (m *Mux) clientTells(c *client, msg mcp.Message) {
	r := parse(msg)
	switch msg.Method {
	case mcp.MethodInitialized:
		m.confirm(c, r)
	case mcp.MethodCancelled:
		m.cancel(c, r)
	case mcp.MethodProgress:
		m.clientProgress(c, r)
	case mcp.MethodRootsChanged:
		// The server would ask for the roots again, and must not ask another client than the one whose roots it has.
		if m.alone(c) {
			m.tell(c, r)
		}
	case mcp.MethodTaskStatus:
		if m.tasks.ofClients[kept{clientTask, textOf(msg.Raw, r.target)}] == c {
			m.tell(c, r)
		}
	default:
		if k := (call{method: msg.Method}); !k.changesState() && target(msg.Method) != "taskId" {
			m.tell(c, r)
		}
	}
}

// tell passes a notification on. During the handshake there is nothing that the server could be told of.
func (m *Mux) tell(c *client, r request) {
	if m.acceptsCalls() {
		m.noteKnown(c)
		m.toServerFrom(c, splice(r.msg.Raw))
	}
}

// clientProgress takes the progress of a request of the server.
func (m *Mux) clientProgress(c *client, r request) {
	if a := m.asks[numberOf(idOf(r.msg.Raw, r.target))]; a != nil && a.client == c && a.token != "" {
		m.toServerFrom(c, splice(r.msg.Raw, edit{r.target, a.token}))
	}
}

// serverTells takes a notification of the server: to its owner if it has one, to all otherwise.
func (m *Mux) serverTells(msg mcp.Message) {
	params := at(msg.Raw, "params")
	task := ""
	if msg.Method == mcp.MethodTaskStatus || msg.Method == mcp.MethodTaskExtension { // Whichever way it takes.
		task = textOf(msg.Raw, within(msg.Raw, params, "taskId"))
		m.tasks.status(task, textOf(msg.Raw, within(msg.Raw, params, "status")))
	}
	meta := within(msg.Raw, params, "_meta")
	if id := within(msg.Raw, meta, mcp.MetaSubscription); id.to > 0 {
		m.subscriptionTells(msg, id)
		return
	}
	if related := within(msg.Raw, meta, mcp.MetaTask); related.to > 0 {
		m.toOwner(msg, textOf(msg.Raw, within(msg.Raw, related, "taskId")))
		return
	}
	switch msg.Method {
	case mcp.MethodCancelled:
		m.serverCancels(msg, within(msg.Raw, params, "requestId"))
	case mcp.MethodProgress:
		m.serverProgress(msg, within(msg.Raw, params, "progressToken"))
	case mcp.MethodLog:
		m.log(msg, textOf(msg.Raw, within(msg.Raw, params, "level")))
	case mcp.MethodUpdated:
		m.updated(msg, textOf(msg.Raw, within(msg.Raw, params, "uri")))
	case mcp.MethodTaskStatus, mcp.MethodTaskExtension:
		m.toOwner(msg, task)
	case mcp.MethodElicited:
		m.elicited(msg, textOf(msg.Raw, within(msg.Raw, params, "elicitationId")))
	default:
		m.toAll(splice(msg.Raw))
	}
}

// toOwner gives a notification to the client whose task it is about.
func (m *Mux) toOwner(msg mcp.Message, task string) {
	t := m.tasks.known[task]
	if t == nil {
		return
	}
	e := edit{}
	if token := at(msg.Raw, "params", "progressToken"); msg.Method == mcp.MethodProgress && token.to > 0 {
		if t.token == "" || numberOf(idOf(msg.Raw, token)) != t.n {
			return
		}
		e = edit{token, t.token}
	}
	m.toClient(t.client, splice(msg.Raw, e))
}

// subscriptionTells takes a notification about a subscription, which is an open request (2026-07-28, basic/patterns/
// subscriptions).
func (m *Mux) subscriptionTells(msg mcp.Message, id span) {
	if k := m.calls[numberOf(idOf(msg.Raw, id))]; k != nil && k.client != nil && k.method == mcp.MethodListen {
		m.provesModern()
		m.toClient(k.client, splice(msg.Raw, edit{id, k.id}))
	}
}

// serverCancels takes back a request of the server, or ends a subscription of a client (2026-07-28, basic/patterns/
// cancellation).
func (m *Mux) serverCancels(msg mcp.Message, id span) {
	key := idOf(msg.Raw, id)
	if a := m.asks[m.asked[key]]; a != nil {
		m.forget(a)
		m.toClient(a.client, splice(msg.Raw, edit{id, strconv.FormatInt(a.n, 10)}))
		return
	}
	k := m.calls[numberOf(key)]
	if k == nil || !k.sent || k.client == nil || k.method != mcp.MethodListen {
		return
	}
	m.close(k)
	m.answer(k, splice(msg.Raw, edit{id, k.id}))
}

// serverProgress takes the progress of a call, or of the task that it began.
func (m *Mux) serverProgress(msg mcp.Message, token span) {
	n := numberOf(idOf(msg.Raw, token))
	if k := m.calls[n]; k != nil {
		if k.client != nil && k.token != "" {
			m.toClient(k.client, splice(msg.Raw, edit{token, k.token}))
		}
		return
	}
	if t := m.tasks.reporting(n); t != nil {
		m.toClient(t.client, splice(msg.Raw, edit{token, t.token}))
	}
}

// elicited passes on that what the server wanted of a person has come in, to the client that was asked for it (2025-11-25,
// client/elicitation, "Completion Notifications for URL Mode").
func (m *Mux) elicited(msg mcp.Message, id string) {
	c := m.tasks.ofClients[kept{elicitation, id}]
	delete(m.tasks.ofClients, kept{elicitation, id})
	if c == nil {
		c, _ = m.only()
	}
	if c != nil {
		m.toClient(c, splice(msg.Raw))
	}
}

// noteElicitations takes an error that asks for elicitations before a call is made again.
func (m *Mux) noteElicitations(c *client, msg mcp.Message) {
	eachElement(msg.Raw, at(msg.Raw, "error", "data", "elicitations"), func(element span) {
		m.tasks.ofClient(c, elicitation, textOf(msg.Raw, within(msg.Raw, element, "elicitationId")))
	})
}
