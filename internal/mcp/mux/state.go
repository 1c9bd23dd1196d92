package mux

import (
	"bytes"
	"maps"
	"slices"

	"mcp-tether/internal/mcp"
)

// State is what the mux of the next host must know of a client to go on with it. It leaves out the client's open
// requests, which Changes and Out.Answers report.
type State struct {
	// Modern says that the client uses requests without a handshake. Ready: it has confirmed its handshake.
	// Roots: a server has asked for its roots. Given: it has got them. Early: it asked before it had any work.
	Modern, Ready, Roots, Given, Early bool
	// Params and Result are those of its handshake, as JSON; nil without one.
	Params, Result []byte
	// Level is the log level that it asked for, "" if it has not.
	Level string
	// URIs are the resources that it is subscribed to.
	URIs []string
	// LastAsk is the largest id that a request of the server had for it.
	LastAsk int64
}

// Changed lists clients whose State has changed since the last call, or since they were attached.
func (m *Mux) Changed() []Client {
	changed := m.changed
	m.changed = nil
	return changed
}

// State is what is to be kept of a client.
func (m *Mux) State(id Client) State {
	c := m.clients[id]
	if c == nil {
		return State{}
	}
	s := State{Modern: c.modern, Ready: c.ready, URIs: slices.Sorted(maps.Keys(c.uris)), LastAsk: m.lastAsk}
	if c.met {
		s.Roots, s.Given, s.Early = m.handshake.roots, m.handshake.given, m.handshake.early
		s.Params, s.Result = m.handshake.params, m.handshake.result
	}
	if c.level > 0 {
		s.Level = levels()[c.level-1]
	}
	return s
}

// Resume takes a client of an earlier mux, whose requests have all been answered. A *MisfitError says that it cannot go
// on here. It needs a server that does what its first one did.
func (m *Mux) Resume(id Client, s State) ([]Out, error) {
	m.begin()
	h := &m.handshake
	m.lastAsk = max(m.lastAsk, s.LastAsk)
	if s.Result != nil {
		if reason := m.unfit(s); reason != "" {
			return nil, &MisfitError{reason}
		}
	}
	m.Attach(id)
	c := m.clients[id]
	c.modern, c.ready = s.Modern, s.Ready
	h.roots, h.given, h.early = h.roots || s.Roots, h.given || s.Given, h.early || s.Early
	if s.Result != nil {
		m.rejoin(c, s)
	}
	c.level = levelNumber(s.Level)
	m.logs.works = m.logs.works || c.level > 0
	for _, uri := range s.URIs {
		m.rewatch(c, uri)
	}
	m.adjustLevel()
	return m.out, nil
}

// rejoin takes up the handshake of a client of an earlier mux.
func (m *Mux) rejoin(c *client, s State) {
	h := &m.handshake
	if h.result == nil {
		h.result = bytes.Clone(s.Result)
		h.latest = h.result
		m.meetWaiting()
	}
	if h.params == nil {
		h.params = bytes.Clone(s.Params)
		if m.up {
			if c.ready {
				m.noteKnown(c) // The server may ask before it answers.
			}
			m.askOwn(mcp.MethodInitialize, "", string(h.params))
		}
	}
	c.met = true
	m.confirmAlone()
	m.note(c)
}

// unfit says why a client with a handshake cannot go on here; "" if it can.
func (m *Mux) unfit(s State) string {
	h := &m.handshake
	switch {
	case m.isModern(nil):
		return "the server serves clients without a handshake"
	case h.params == nil:
		return ""
	}
	if reason := m.unlike(s.Params); reason != "" {
		return reason
	}
	// It counts even if the other client is not met yet, or has left: what a server asks is then of no certain client.
	if s.Roots {
		return "the server would work with the roots of one of several clients"
	}
	if h.result == nil {
		return ""
	}
	if lost := poorer(s.Result, h.result); lost != "" {
		return "the server is another one: " + lost
	}
	return ""
}

// rewatch subscribes a client that was subscribed before.
func (m *Mux) rewatch(c *client, uri string) {
	w := m.watched[uri]
	if w == nil {
		w = &watch{}
		m.watched[uri] = w
	}
	m.join(w, c, uri)
	if m.acceptsCalls() {
		m.watchNext(uri, w)
		m.toClient(c, updatedLine(uri))
	}
}
