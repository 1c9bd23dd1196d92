package mux

import (
	"encoding/json"

	"mcp-tether/internal/mcp"
)

// State is all that a client that is alone wants of the next server, while there is none and nothing waits. It can be written as
// JSON, and another mux goes on with it.
type State struct {
	// Initialize and Initialized are the handshake as the client wrote it; Result is the answer that it knows. Modern says that
	// servers need none.
	Initialize, Initialized string
	Result                  json.RawMessage `json:",omitempty"`
	Modern                  bool
	// Level is the log level that the client has asked for, and URIs what it is subscribed to.
	Level int
	URIs  []string
	// Listens are its open subscriptions (2026-07-28).
	Listens []Listen
	// Lists are the lists that it has.
	Lists map[string]List
	// Roots is how servers use the client's roots.
	Roots RootsState
	// Told says that the client was told something in the place of a server.
	Told bool
	// Asks and OwnIDs count what may not be used again as an id.
	Asks, OwnIDs int64
}

// Listen is an open subscription: the request, its id as the client wrote it, and what servers have agreed to report.
type Listen struct {
	ID, Line string
	Agreed   json.RawMessage
}

// List is a list of the server's as the client has it: its sum, 0 if it came in pages or as an error, and whether the client has it
// from an earlier session, and not from a server of this one.
type List struct {
	Sum  uint64
	Told bool
}

// RootsState is what is known of the servers' use of the client's roots, see roots.
type RootsState struct {
	Use     rootsUse
	Changed string
}

// State gives the state of a mux whose client is alone, without a server and with nothing that waits.
func (m *Mux) State() State {
	h, c := &m.handshake, m.clients[0]
	s := State{
		Initialize: h.initialize, Initialized: h.initialized, Result: h.result, Modern: h.modern,
		Level: c.level, URIs: m.allSubscribed(), Lists: m.lists, Roots: m.roots.RootsState,
		Told: m.told, Asks: m.lastAsk, OwnIDs: m.ownIDs,
	}
	for _, k := range m.openListens() {
		s.Listens = append(s.Listens, Listen{ID: k.id, Line: string(k.kept), Agreed: k.agreed})
	}
	return s
}

// Resume makes a mux for a client that is alone, without a server, that goes on where another was.
func Resume(id Client, s State) *Mux {
	m := New()
	m.Alone = true
	m.Attach(id)
	h, c := &m.handshake, m.clients[0]
	h.initialize, h.initialized, h.result, h.modern = s.Initialize, s.Initialized, s.Result, s.Modern
	if h.result != nil {
		h.params, h.phase = mcp.ValueAt([]byte(h.initialize), "params"), phaseAnswered
	}
	if h.initialized != "" && h.result != nil {
		h.phase = phaseDone
	}
	c.initialized, c.modern = h.result != nil, s.Modern
	c.level = s.Level
	for i, uri := range s.URIs {
		c.uris[uri] = int64(i + 1)
	}
	m.lastID = int64(len(s.URIs))
	for kind, list := range s.Lists {
		m.lists[kind] = list
	}
	for _, l := range s.Listens {
		k := &call{ids: ids{id: l.ID}, client: c, method: mcp.MethodListen, rule: mcp.RuleOf(mcp.MethodListen), modern: true}
		k.kept, k.agreed = []byte(l.Line), l.Agreed
		k.key, _ = mcp.NormalID([]byte(l.ID))
		m.open(k)
	}
	m.told = s.Told
	m.roots.RootsState, m.lastAsk = s.Roots, s.Asks
	m.server.away, m.server.renames, m.ownIDs = true, s.Asks > 0, s.OwnIDs
	return m
}
