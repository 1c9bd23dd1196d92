package mux

import (
	"fmt"
	"maps"
	"slices"

	"mcp-tether/internal/mcp"
)

// forgetServer forgets what belonged to the server that has ended.
func (m *Mux) forgetServer() {
	m.up = false
	m.sole, m.several = 0, false
	m.calls = map[int64]*call{}
	m.asks = map[int64]*ask{}
	m.asked = map[string]int64{}
	m.tasks = newTasks()
	m.ghosts, m.orphans = 0, 0
	m.logs.sent = 0
	m.handshake.phase, m.handshake.modern, m.handshake.settling = phaseIdle, false, settling{}
	m.forgetRoots()
	for _, c := range m.order {
		c.tasks, c.running, c.sent = 0, 0, 0
	}
}

// forgetRoots forgets that a server has a client's roots, if there is no server and no client with a handshake.
func (m *Mux) forgetRoots() {
	if !m.up && !m.knowsOthers(nil) {
		m.handshake.roots, m.handshake.given, m.handshake.early = false, false, false
	}
}

// knowsOthers reports whether there is a client with a handshake beside that one.
func (m *Mux) knowsOthers(beside *client) bool {
	for _, c := range m.order {
		if c.met && c != beside {
			return true
		}
	}
	return false
}

// ServerStarted takes the news that there is a server, which has been sent nothing. It returns what must be sent to the
// server before anything else.
func (m *Mux) ServerStarted() []Out {
	m.begin()
	if m.up {
		return nil
	}
	m.up = true
	switch h := &m.handshake; {
	case h.result != nil:
		m.knowReady() // The server may ask before it answers.
		m.askOwn(mcp.MethodInitialize, "", string(h.params))
	case h.params != nil: // The handshake of a client waits, and goes before what was remembered.
		m.sendHeld()
	default:
		m.restore()
		m.resumeCalls()
	}
	return m.out
}

// ServerGone takes the news that the server has ended, or could not be started. All that was asked of it is answered with
// an error; why is part of its text. Nothing is ever asked again.
func (m *Mux) ServerGone(why string) []Out {
	m.begin()
	m.handshake.settling = settling{}
	for _, a := range m.openAsks() {
		m.takeBack(a, why)
	}
	m.failAll(why)
	for uri, w := range m.watched {
		w.busy, w.on, w.asking = false, false, nil
		m.tidy(uri, w)
	}
	if m.handshake.result == nil {
		m.handshake.params = nil
	}
	m.forgetServer()
	return m.out
}

// failAll answers all calls with an error, oldest first.
func (m *Mux) failAll(why string) {
	calls := slices.Collect(maps.Values(m.calls))
	byNumber(calls)
	for _, k := range calls {
		m.fail(k, codeInternal, why)
	}
	m.held, m.dropped = nil, 0
}

// restore sends a new server what the last one was asked to remember.
func (m *Mux) restore() {
	m.knowReady()
	for _, uri := range slices.Sorted(maps.Keys(m.watched)) {
		w := m.watched[uri]
		if len(w.clients) == 0 || w.on {
			continue
		}
		m.watchNext(uri, w) // Unless the request of a client waits that asks for it.
		// No server watched the resource meanwhile.
		line := updatedLine(uri)
		for _, c := range w.clients {
			m.toClient(c, line)
		}
	}
}

// knowReady records that a new server knows the clients that are ready.
func (m *Mux) knowReady() {
	for _, c := range m.order {
		if c.met && c.ready {
			m.noteKnown(c)
		}
	}
}

func updatedLine(uri string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"uri":%s}}`+"\n", mcp.MethodUpdated, mcp.Quote(uri))
}
