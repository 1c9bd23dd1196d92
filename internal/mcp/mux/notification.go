package mux

import (
	"strings"

	"mcp-tether/internal/mcp"
)

// clientTells takes a notification of a client.
func (m *Mux) clientTells(c *client, msg mcp.Message) {
	r := parse(msg)
	if m.Alone {
		m.aloneClientTells(c, r)
		return
	}
	switch msg.Method {
	case mcp.MethodInitialized: // The mux has told the server.
	case mcp.MethodCancelled:
		m.cancel(c, r)
	case mcp.MethodProgress:
		m.clientProgress(c, r)
	case mcp.MethodRootsChanged:
		// The server would ask for the roots again, and must not ask another client than the one whose roots it has.
		if m.isSole(c) {
			m.tell(c, r)
		}
	default:
		if rule := mcp.RuleOf(msg.Method); !rule.Keeps && rule.About != mcp.AboutTask {
			m.tell(c, r)
		}
	}
}

// tell passes a notification on. During the handshake there is nothing that the server could be told of.
func (m *Mux) tell(c *client, r request) {
	if m.acceptsCalls() {
		m.noteKnown(c)
		m.toServerFrom(c, mcp.Splice(r.msg.Raw))
	}
}

// clientProgress takes the progress of a request of the server.
func (m *Mux) clientProgress(c *client, r request) {
	if a := m.askOf(r.msg.IDAt(r.target)); a != nil && a.client == c && a.token != "" {
		m.toServerFrom(c, mcp.Splice(r.msg.Raw, replace(r.target, a.token)))
	}
}

// serverTells takes a notification of the server: to its owner if it has one, to all otherwise.
func (m *Mux) serverTells(msg mcp.Message) {
	params, task := msg.Params, ""
	if msg.Method == mcp.MethodTaskStatus || msg.Method == mcp.MethodTaskExtension { // Whichever way it takes.
		task = msg.Text(params, "taskId")
		m.server.taskStatus(task, msg.Text(params, "status"))
	}
	if m.Alone {
		m.aloneServerTells(msg)
		return
	}
	meta := msg.Within(params, "_meta")
	if id := msg.Within(meta, mcp.MetaSubscription); id.To > 0 {
		m.subscriptionTells(msg, id)
		return
	}
	if related := msg.Within(meta, mcp.MetaTask); related.To > 0 && msg.Method != mcp.MethodProgress {
		m.toOwner(msg, msg.Text(related, "taskId"))
		return
	}
	switch msg.Method {
	case mcp.MethodCancelled:
		m.serverCancels(msg, msg.Within(params, "requestId"))
	case mcp.MethodProgress:
		m.serverProgress(msg, msg.Within(params, "progressToken"))
	case mcp.MethodLog:
		m.log(msg, msg.Text(params, "level"))
	case mcp.MethodUpdated:
		m.updated(msg, msg.Text(params, "uri"))
	case mcp.MethodTaskStatus, mcp.MethodTaskExtension:
		m.toOwner(msg, task)
	default:
		m.toAll(mcp.Splice(msg.Raw))
	}
}

// toOwner gives a notification to the client whose task it is about.
func (m *Mux) toOwner(msg mcp.Message, task string) {
	if t := m.server.tasks[task]; t != nil {
		m.toClient(t.client, mcp.Splice(msg.Raw))
	}
}

// serverCancels takes back a request of the server, or ends a subscription of a client (2026-07-28, basic/patterns/
// cancellation).
func (m *Mux) serverCancels(msg mcp.Message, id mcp.Span) {
	key := msg.IDAt(id)
	if a := m.askWithKey(key); a != nil {
		m.forget(a)
		m.toClient(a.client, m.reworded(a, msg, replace(id, a.ours)))
		m.advance()
		return
	}
	k := m.callOf(key)
	if k == nil || !k.sent || k.client == nil || k.method != mcp.MethodListen {
		m.passToClient(msg)
		return
	}
	if m.server.leaving && k.agreed != nil { // It may be the last word of a server that falls asleep.
		return
	}
	m.server.answered = true
	m.close(k)
	if m.passToClient(msg); !m.Alone {
		m.toClient(k.client, mcp.Splice(msg.Raw, replace(id, k.id)))
	}
	m.noteRepeated(k)
}

// serverProgress takes the progress of a call, or of the task that it began.
func (m *Mux) serverProgress(msg mcp.Message, token mcp.Span) {
	id := msg.IDAt(token)
	if k := m.callOf(id); k != nil {
		if k.client != nil && k.token != "" {
			m.toClient(k.client, mcp.Splice(msg.Raw, replace(token, k.token)))
		}
		return
	}
	for _, t := range m.server.tasks {
		if t.ours == strings.Trim(id, `"`) && !t.ended && t.token != "" {
			m.toClient(t.client, mcp.Splice(msg.Raw, replace(token, t.token)))
			return
		}
	}
}
