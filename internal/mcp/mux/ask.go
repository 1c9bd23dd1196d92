package mux

import (
	"sort"
	"strconv"

	"mcp-tether/internal/mcp"
)

// ask is a request of the server to a client.
type ask struct {
	// n is its id at the client, and its progress token there.
	n      int64
	client *client
	// id is its id as the server wrote it, key the same in one spelling, token the server's progress token, "" if it has none.
	id, key, token string
	// mayTask says that the client may answer with a task.
	mayTask bool
}

// maxAsks bounds how many requests of the server may be open.
const maxAsks = 4096

// serverAsks takes a request of the server: it goes to the one client that it is certainly for.
func (m *Mux) serverAsks(msg mcp.Message) {
	from, to := msg.IDSpan()
	id := string(msg.Raw[from:to])
	if msg.ID == mcp.IDNull {
		return
	}
	if msg.Method == mcp.MethodPing {
		m.replyToServer(resultLine(id))
		return
	}
	c, why := m.clientFor(msg)
	if len(m.asks) >= maxAsks {
		c, why = nil, "too many requests of the server are open"
	}
	if msg.Method == mcp.MethodRoots && c != nil && !m.alone(c) {
		c, why = nil, "it may not judge the calls of all by the roots of one"
	}
	if c == nil {
		m.replyToServer(errorLine(id, codeInternal, "this server is shared by clients, and "+why))
		return
	}
	m.forward(c, msg, id)
}

func (m *Mux) forward(c *client, msg mcp.Message, id string) {
	m.lastAsk++
	a := &ask{n: m.lastAsk, client: c, id: id, key: msg.ID}
	a.mayTask = at(msg.Raw, "params", "task").to > 0
	m.tasks.ofClient(c, elicitation, textOf(msg.Raw, at(msg.Raw, "params", "elicitationId")))
	m.handshake.roots = m.handshake.roots || msg.Method == mcp.MethodRoots
	token := at(msg.Raw, "params", "_meta", "progressToken")
	if token.to > 0 {
		a.token = string(token.of(msg.Raw))
	}
	if old := m.asks[m.asked[a.key]]; old != nil { // The server uses the id twice.
		m.forget(old)
	}
	m.asks[a.n], m.asked[a.key] = a, a.n
	n := strconv.FormatInt(a.n, 10)
	first, second := inOrder(idEdit(msg, n), edit{token, n})
	m.toClient(c, splice(msg.Raw, first, second))
}

// clientFor returns the client that a request of the server is for; nil, and why, if that is not certain.
func (m *Mux) clientFor(msg mcp.Message) (c *client, why string) {
	const unknown = "the task that this request is about is of none of them"
	if related := at(msg.Raw, "params", "_meta", mcp.MetaTask, "taskId"); related.to > 0 {
		if t := m.tasks.known[textOf(msg.Raw, related)]; t != nil {
			return t.client, ""
		}
		return nil, unknown
	}
	if target(msg.Method) == "taskId" {
		if c := m.tasks.ofClients[kept{clientTask, textOf(msg.Raw, at(msg.Raw, "params", "taskId"))}]; c != nil {
			return c, ""
		}
		return nil, unknown
	}
	return m.only()
}

// only is the client that all is for which names none: the only one that the server has ever had. An open call is no
// certainty, because background work of another one's call asks as well.
func (m *Mux) only() (c *client, why string) {
	if c = m.clients[m.sole]; c != nil {
		return c, ""
	}
	return nil, "this request names no task, so it is not known which one it is for"
}

// alone reports whether the server has known no other client, and none is there to use it.
func (m *Mux) alone(c *client) bool { return m.sole == c.id && len(m.order) == 1 }

// clientAnswers takes a client's answer to a request of the server.
func (m *Mux) clientAnswers(c *client, msg mcp.Message) {
	a := m.asks[numberOf(msg.ID)]
	if a == nil || a.client != c {
		return
	}
	m.forget(a)
	if a.mayTask {
		m.tasks.ofClient(c, clientTask, textOf(msg.Raw, at(msg.Raw, "result", "task", "taskId")))
	}
	m.toServerFrom(c, splice(msg.Raw, idEdit(msg, a.id)))
}

func (m *Mux) forget(a *ask) {
	delete(m.asks, a.n)
	if m.asked[a.key] == a.n {
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
			m.toServer(errorLine(a.id, codeInternal, "the client has left"))
			m.forget(a)
		}
	}
}
