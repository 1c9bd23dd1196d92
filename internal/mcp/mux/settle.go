package mux

import (
	"fmt"

	"mcp-tether/internal/mcp"
)

// settling is the time in which a new server takes the roots of its client, which bound what calls may do
// (client/roots). Calls wait meanwhile. If the last server asked before it had any work, this one must ask, too. Nothing tells
// when it has made use of the answer. So it must answer a ping, rest for a moment, and answer another.
type settling struct {
	// on: calls wait. stage is what for.
	on    bool
	stage stage
	// again: the roots came after the first ping, or the news that they have changed. changed: that news came before the
	// server had answered the handshake, and waits.
	again, changed bool
	// asking counts the requests for roots that are open. has: the server has got an answer with roots.
	asking int
	has    bool
	// worked: the server was given work that it might judge by the roots.
	worked bool
	// refused: the client refuses what it gave the last server, so no call may reach this one.
	refused bool
}

// stage is what a server that settles is to do next.
type stage uint8

const (
	stageRoots stage = iota
	stagePing
	stageRest
	stageLastPing
)

// settle begins the settling of a new server.
func (m *Mux) settle() {
	h := &m.handshake
	h.on = true
	if h.changed {
		h.worked = true
		m.toServer(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`+"\n", mcp.MethodRootsChanged))
	}
	m.awaitRoots()
}

// awaitRoots goes on with the first ping, as soon as the server has the roots that it asks for.
func (m *Mux) awaitRoots() {
	h := &m.handshake
	h.stage = stageRoots
	if h.asking > 0 || h.given && h.early && !h.has {
		return
	}
	h.again = false
	m.pingServer(stagePing)
}

func (m *Mux) pingServer(in stage) {
	m.handshake.stage = in
	m.askOwn(mcp.MethodPing, "", "{}")
}

// settled takes the answer to a ping.
func (m *Mux) settled() {
	s := &m.handshake.settling
	switch {
	case !s.on:
	case s.again || s.asking > 0:
		m.awaitRoots()
	case s.stage == stagePing:
		s.stage = stageRest
	default:
		s.on = false
		m.resumeCalls()
	}
}

// Rested takes the news that a server has had the moment that Settling asked for.
func (m *Mux) Rested() []Out {
	m.begin()
	switch s := &m.handshake.settling; {
	case !s.on || s.stage != stageRest:
	case s.again || s.asking > 0:
		m.awaitRoots()
	default:
		m.pingServer(stageLastPing)
	}
	return m.out
}

// Settling reports whether calls wait for a new server to answer the handshake that the last one has answered, and to take
// the roots of its client. rests says that it needs a moment for itself; then Rested is to be called. refused says that
// the client refuses what it gave the last server. The server must then be ended, and also if it takes too long.
func (m *Mux) Settling() (on, rests, refused bool) {
	h := &m.handshake
	greets := h.phase == phaseAsked && h.result != nil // It may ask for roots before it answers.
	return h.on || greets, h.on && h.stage == stageRest, h.refused
}

// rootsAnswered takes the client's answer to a server that asks for its roots.
func (m *Mux) rootsAnswered(a *ask, refused bool) {
	h := &m.handshake
	settles, _, _ := m.Settling()
	switch {
	case !refused:
		h.has, h.given = true, true
		h.early = h.early || a.early
	case settles && h.given:
		h.refused = true
	default:
		h.given = false
	}
}

// rootsClosed takes the news that a request for roots is open no more.
func (m *Mux) rootsClosed() {
	s := &m.handshake.settling
	s.asking--
	if s.again = true; s.on && s.stage == stageRoots {
		m.awaitRoots()
	}
}
