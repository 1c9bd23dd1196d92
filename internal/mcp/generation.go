package mcp

import "fmt"

// generations keeps the requests of one server apart from those of the next. Servers count their requests from the
// beginning. So an answer which the client still owes to an earlier server would reach the next one as the answer to
// another question. An id that is still owed is therefore not shown to the client again: it sees an id of the relay's
// instead. The zero value has seen one server at most.
type generations struct {
	// asked counts the unanswered requests of this server by id. Cancelled ones count, because they may be answered all
	// the same. owed counts the unanswered requests of earlier servers.
	asked, owed map[string]int
	// shown maps the server's own id to the id that the client sees, and own maps it back. Both have only ids that differ.
	shown, own map[string]string
}

// maxOwed bounds how many unanswered requests of the server are remembered.
const maxOwed = 4096

// ask takes a request of the server. A request that the client knows by another id is counted in own.
func (g *generations) ask(id string) {
	if g.shown[id] != "" {
		return
	}
	if g.asked == nil {
		g.asked = map[string]int{}
	}
	g.asked[id]++
}

func (g *generations) answer(id string) { countDown(g.asked, id) }

// countDown counts one less, to no less than 0, and forgets what is 0.
func countDown(counts map[string]int, id string) {
	if n := counts[id]; n > 1 {
		counts[id] = n - 1
		return
	}
	delete(counts, id)
}

// next forgets the server, with its requests that were not answered.
func (g *generations) next() {
	if g.owed == nil {
		g.owed = map[string]int{}
	}
	for id, n := range g.asked {
		g.owed[id] += n
	}
	for shown := range g.own {
		g.owed[shown]++
	}
	g.asked, g.shown, g.own = nil, map[string]string{}, map[string]string{}
}

// Mixed reports whether ids of this server and of an earlier one could be mistaken for each other. As long as that is so,
// each line must go through ToClient and ToServer.
func (c *Conversation) Mixed() bool { return len(c.past.owed)+len(c.past.own) > 0 }

// ToClient gives a message of the server as the client is to see it. The message must go through FromServer as well, as
// the server wrote it.
func (c *Conversation) ToClient(m Message) []byte {
	switch {
	case m.asks() && (c.past.owed[m.ID] > 0 || c.past.shown[m.ID] != ""):
		id := c.ids.next()
		c.past.shown[m.ID], c.past.own[id] = id, m.ID
		return m.withID(id)
	case m.Method == MethodCancelled && c.past.shown[CancelledID(m)] != "":
		return Cancelled(c.past.shown[CancelledID(m)], textAt(m.Raw, "params", "reason"))
	}
	return m.Raw
}

// ToServer gives an answer of the client as the server is to see it. ok is false if the answer is for an earlier
// server.
func (c *Conversation) ToServer(m Message) (out Message, ok bool) {
	if own, found := c.past.own[m.ID]; found {
		delete(c.past.own, m.ID)
		if c.past.shown[own] != m.ID { // The server has asked another question under its id.
			return m, false
		}
		delete(c.past.shown, own)
		m.ID, m.Raw = own, m.withID(own)
		return m, true
	}
	if c.past.owed[m.ID] > 0 {
		countDown(c.past.owed, m.ID)
		return m, false
	}
	return m, true
}

// Answers reports whether a message is the client's answer to an open request of this server.
func (c *Conversation) Answers(m Message) bool {
	if c.past.own[m.ID] != "" {
		return m.answers()
	}
	return m.answers() && c.past.owed[m.ID] == 0 && len(c.server.requests.open[m.ID]) > 0
}

// Cancelled is the message, without a newline, that takes back a request. id is JSON.
func Cancelled(id, reason string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s,"reason":%s}}`, MethodCancelled, id, Quote(reason))
}

// IsPing reports whether a message is a ping that can be answered without the server. Such a ping only asks whether
// there is a server (up to 2025-11-25, basic/utilities/ping).
func (c *Conversation) IsPing(m Message) bool {
	return m.asks() && m.Method == MethodPing && c.handshake.done()
}

// IsStray reports whether a message has no effect as the first one that a server gets: it is about a request that no
// server has.
func (c *Conversation) IsStray(m Message) bool {
	return m.Kind == Response || m.Kind == Notification && (m.Method == MethodCancelled || m.Method == MethodProgress)
}
