package mux

import (
	"fmt"
	"math"
	"strconv"

	"mcp-tether/internal/mcp"
)

// A client that is alone is served by one server after another. Lines pass as they are; what the mux knows of them is what the
// next server must know, and what no server may be ended for.

// passToServer gives the server a line of which nothing is known, as soon as there is one.
func (m *Mux) passToServer(c *client, msg mcp.Message) {
	blank := len(msg.Raw) == 0
	m.used = m.used || !blank
	if msg.Kind != mcp.Opaque && msg.Kind != mcp.Notification {
		m.server.awake = unreadable
	}
	switch {
	case m.acceptsCalls():
		m.toServerFrom(c, msg.Line)
	case !blank:
		k := &call{client: c}
		k.keep(msg.Line)
		m.held = append(m.held, k)
	}
}

// Unread passes on bytes of the client that are no line.
func (m *Mux) Unread(text []byte) []Out {
	m.begin()
	m.passToServer(m.clients[0], mcp.Message{Line: text, Raw: text, Kind: mcp.Unclear})
	return m.out
}

// passToClient gives the only client a line of the server of which nothing is known.
func (m *Mux) passToClient(msg mcp.Message) {
	if m.Alone {
		m.toClient(m.clients[0], msg.Line)
	}
}

// answersItself answers a request for which no server is needed.
func (m *Mux) answersItself(c *client, r request, k *call) bool {
	m.used = m.used || k.method != mcp.MethodPing
	if m.acceptsCalls() {
		return false
	}
	if k.method == mcp.MethodPing && m.handshake.phase == phaseDone { // It only asks whether there is a server.
		m.toClient(c, mcp.PingReply(k.id))
		return true
	}
	return m.server.away && len(m.held) == 0 && m.answerFromCache(c, r, k)
}

// aloneClientTells takes a notification of the only client.
func (m *Mux) aloneClientTells(c *client, r request) {
	switch r.msg.Method {
	case mcp.MethodInitialized:
		m.initializedAlone(c, r)
		return
	case mcp.MethodCancelled:
		m.cancel(c, r)
		return
	case mcp.MethodProgress:
		m.passIfServed(c, r.msg)
		return
	case mcp.MethodRootsChanged:
		m.roots.working = true
		if m.acceptsCalls() {
			m.roots.Changed = string(mcp.Splice(r.msg.Raw))
		}
	}
	m.passToServer(c, r.msg)
}

// passIfServed passes on what has a meaning for the present server only.
func (m *Mux) passIfServed(c *client, msg mcp.Message) {
	if m.Alone && m.acceptsCalls() {
		m.toServerFrom(c, msg.Line)
	}
}

// initializedAlone takes the client's notification that it is ready. The next server is sent the same. It may wait behind the
// initialize.
func (m *Mux) initializedAlone(c *client, r request) {
	h := &m.handshake
	h.initialized = string(mcp.Splice(r.msg.Raw))
	if h.phase == phaseAnswered {
		h.phase = phaseDone
		m.used = true
	}
	if m.acceptsCalls() || h.result == nil {
		m.passToServer(c, r.msg)
	}
}

// answersNothing takes an answer to no question that is known. Such a thing of the first server's time may mean something to it.
func (m *Mux) answersNothing(msg mcp.Message) {
	if m.Alone && !m.server.renames && m.acceptsCalls() {
		m.toServerFrom(m.clients[0], msg.Line)
	}
}

// aloneServerTells takes a notification of the server.
func (m *Mux) aloneServerTells(msg mcp.Message) {
	c, params := m.clients[0], msg.Params
	m.used = true
	switch msg.Method {
	case mcp.MethodCancelled:
		m.serverCancels(msg, msg.Within(params, "requestId"))
		return
	case mcp.MethodAcknowledged:
		id := msg.Within(params, "_meta", mcp.MetaSubscription)
		if k := m.callOf(msg.IDAt(id)); k != nil && k.method == mcp.MethodListen && m.acknowledged(k, msg) {
			return
		}
	case mcp.MethodLog: // The level that the client has asked for is under way to a new server.
		if level := levelNumber(msg.Text(params, "level")); m.server.stage != served && level > 0 && level < c.level {
			return
		}
	default:
		m.saveChanged(listsOf(msg.Method)...)
	}
	m.toClient(c, msg.Line)
}

// ownID is an id for a request of ours that the only client has not used. Some servers take only numbers: if the client has
// numbers, it is one that no client counts up to.
func (m *Mux) ownID() string {
	for {
		m.ownIDs++
		id := fmt.Sprintf(`"mcp-tether:%d"`, m.ownIDs)
		if first := mcp.Parse([]byte(m.handshake.initialize)).ID; first != "" && first[0] != '"' {
			id = strconv.FormatInt(math.MaxInt32-m.ownIDs, 10)
		}
		if m.calls[id] == nil {
			return id
		}
	}
}
