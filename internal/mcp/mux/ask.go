package mux

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"mcp-tether/internal/mcp"
)

// ask is a request of the server to a client.
type ask struct {
	ids
	client *client
	method string
	// mayTask says that the client may answer with a task.
	mayTask bool
}

// serverAsks takes a request of the server: it goes to the one client that it is certainly for.
func (m *Mux) serverAsks(msg mcp.Message) {
	id := string(msg.IDSpan.Of(msg.Raw))
	switch {
	case m.Alone && m.server.leaving: // The answer would reach the next server.
		return
	case msg.ID == mcp.IDNull:
		m.server.unread = true
		m.passToClient(msg)
		return
	case m.Alone:
		m.server.used = m.server.used || msg.Method != mcp.MethodPing
		m.forward(m.order[0], msg, id)
		return
	case msg.Method == mcp.MethodPing:
		m.replyToServer(mcp.PingReply(id))
		return
	}
	c, why := m.clientFor(msg)
	if msg.Method == mcp.MethodRoots && c != nil && !m.isSole(c) {
		c, why = nil, "it may not judge the calls of all by the roots of one"
	}
	if c == nil {
		m.replyToServer(mcp.ErrorReply(id, mcp.CodeInternal, "this server is shared by clients, and "+why))
		return
	}
	m.forward(c, msg, id)
}

// forward asks a client. A client that is alone sees an id of the first server as it is, and an id of ours from then on: it is never
// used again, so an answer that comes late is not taken for the answer to another question.
func (m *Mux) forward(c *client, msg mcp.Message, id string) {
	m.lastAsk++
	a := &ask{ids: ids{n: m.lastAsk, ours: msg.ID, id: id, key: msg.ID}, client: c, method: msg.Method}
	a.mayTask = mcp.At(msg.Raw, "params", "task").To > 0
	var token mcp.Span
	switch {
	case m.Alone && m.server.renames:
		a.ours = fmt.Sprintf(`"mcp-tether:%d"`, a.n)
	case !m.Alone:
		a.ours = strconv.FormatInt(a.n, 10)
		if token = mcp.At(msg.Raw, "params", "_meta", "progressToken"); token.To > 0 {
			a.token = string(token.Of(msg.Raw))
		}
	}
	if msg.Method == mcp.MethodRoots {
		m.rootsAsked()
	}
	if old := m.asked[a.key]; old != nil { // The server uses the id twice.
		m.forget(old)
	}
	m.asks[a.ours], m.asked[a.key] = a, a
	m.toClient(c, m.reworded(a, msg, replace(msg.IDSpan, a.ours), replace(token, a.ours)))
}

// reworded is what one side says of a request of the server, in the words of the other.
func (m *Mux) reworded(a *ask, msg mcp.Message, edits ...mcp.Edit) []byte {
	if m.Alone && a.ours == a.key {
		return msg.Line
	}
	return mcp.Splice(msg.Raw, edits...)
}

// askOf is the request of the server that a client means by an id, nil if there is none.
func (m *Mux) askOf(id string) *ask {
	if a := m.asks[id]; a != nil {
		return a
	}
	return m.asks[strings.Trim(id, `"`)]
}

// clientFor returns the client that a request of the server is for; nil, and why, if that is not certain.
func (m *Mux) clientFor(msg mcp.Message) (c *client, why string) {
	const unknown = "the task that this request is about is of none of them"
	if related := mcp.At(msg.Raw, "params", "_meta", mcp.MetaTask, "taskId"); related.To > 0 {
		if t := m.tasks.known[mcp.TextOf(msg.Raw, related)]; t != nil {
			return t.client, ""
		}
		return nil, unknown
	}
	if mcp.RuleOf(msg.Method).About == mcp.AboutTask {
		if c := m.tasks.ofClients[mcp.TextOf(msg.Raw, mcp.At(msg.Raw, "params", "taskId"))]; c != nil {
			return c, ""
		}
		return nil, unknown
	}
	// It names none, so it is for the only client that the server has ever had. An open call is no certainty: background work of
	// another one's call asks as well.
	if c = m.clients[m.sole]; c != nil {
		return c, ""
	}
	return nil, "this request names no task, so it is not known which one it is for"
}

// isSole reports whether the server has known no other client, and none is there to use it.
func (m *Mux) isSole(c *client) bool { return m.sole == c.id && len(m.order) == 1 }

// clientAnswers takes a client's answer to a request of the server.
func (m *Mux) clientAnswers(c *client, msg mcp.Message) {
	a := m.askOf(msg.ID)
	if a == nil || a.client != c {
		m.answersNothing(msg)
		return
	}
	m.server.used = m.server.used || a.method != mcp.MethodPing
	m.forget(a)
	if id := mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, msg.Result, "task", "taskId")); a.mayTask && id != "" {
		m.tasks.ofClients[id] = c
	}
	m.toServerFrom(c, m.reworded(a, msg, replace(msg.IDSpan, a.id)))
	m.advance()
}

func (m *Mux) forget(a *ask) {
	delete(m.asks, a.ours)
	if m.asked[a.key] == a {
		delete(m.asked, a.key)
	}
}

// openAsks are the open requests of the server, in their order.
func (m *Mux) openAsks() (all []*ask) {
	for _, a := range m.asks {
		all = append(all, a)
	}
	sort.Slice(all, func(a, b int) bool { return all[a].n < all[b].n })
	return all
}

// abandonAsks answers what the server has asked a client that has left.
func (m *Mux) abandonAsks(c *client) {
	for _, a := range m.openAsks() {
		if a.client == c {
			m.toServer(mcp.ErrorReply(a.id, mcp.CodeInternal, "the client has left"))
			m.forget(a)
		}
	}
}
