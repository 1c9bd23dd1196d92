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
}

// serverAsks takes a request of the server: it goes to the one client that it is certainly for.
func (m *Mux) serverAsks(msg mcp.Message) {
	id := string(msg.IDSpan.Of(msg.Raw))
	switch {
	case m.Alone && m.server.leaving: // The answer would reach the next server.
		return
	case msg.ID == mcp.IDNull:
		m.server.awake = unreadable
		m.passToClient(msg)
		return
	case m.Alone:
		m.used = m.used || msg.Method != mcp.MethodPing
		m.forward(m.clients[0], msg, id)
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
	var token mcp.Span
	switch {
	case m.Alone && m.server.renames:
		a.ours = fmt.Sprintf(`"mcp-tether:%d"`, a.n)
	case !m.Alone:
		a.ours = strconv.FormatInt(a.n, 10)
		if token = msg.Within(msg.Params, "_meta", "progressToken"); token.To > 0 {
			a.token = string(token.Of(msg.Raw))
		}
	}
	if msg.Method == mcp.MethodRoots {
		m.rootsAsked()
	}
	if old := m.askWithKey(a.key); old != nil { // The server uses the id twice.
		m.forget(old)
	}
	m.asks[a.ours] = a
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

// clientFor is the client that a request of the server is for; nil, and why, if that is not certain.
func (m *Mux) clientFor(msg mcp.Message) (c *client, why string) {
	if related := msg.Within(msg.Params, "_meta", mcp.MetaTask, "taskId"); related.To > 0 {
		if t := m.server.tasks[msg.Text(related)]; t != nil {
			return t.client, ""
		}
		return nil, "the task that this request is about is of none of them"
	}
	// It names none, so it is for the only client that the server has ever had. An open call is no certainty: background work of
	// another one's call asks as well.
	if c = m.client(m.server.sole); c != nil {
		return c, ""
	}
	return nil, "this request names no task, so it is not known which one it is for"
}

// isSole reports whether the server has known no other client, and none is there to use it.
func (m *Mux) isSole(c *client) bool { return m.server.sole == c.id && len(m.clients) == 1 }

// clientAnswers takes a client's answer to a request of the server.
func (m *Mux) clientAnswers(c *client, msg mcp.Message) {
	a := m.askOf(msg.ID)
	if a == nil || a.client != c {
		m.answersNothing(msg)
		return
	}
	m.used = m.used || a.method != mcp.MethodPing
	m.forget(a)
	if msg.Within(msg.Result, "task").To > 0 {
		m.server.awake = "a task of the server that its client does"
	}
	m.toServerFrom(c, m.reworded(a, msg, replace(msg.IDSpan, a.id)))
	m.advance()
}

// askWithKey is the request of the server that it means by an id, nil if there is none.
func (m *Mux) askWithKey(key string) *ask {
	for _, a := range m.asks {
		if a.key == key {
			return a
		}
	}
	return nil
}

func (m *Mux) forget(a *ask) { delete(m.asks, a.ours) }

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
