package mux

import "mcp-tether/mcp"

// settling is the time in which a new server may ask for the roots of its client, which bound what calls may do
// (client/roots). Calls wait meanwhile. A server may ask as soon as it is notified that the client is ready; then it
// has asked when it answers a ping. It has taken note of the roots when it answers a ping that comes after them.
type settling struct {
	// on: calls wait. pinged: a ping is open. again: the roots came after it, or the news that they have changed.
	on, pinged, again bool
	// asking counts the requests for roots that are open.
	asking int
}

// settle begins the settling of a new server.
func (m *Mux) settle() {
	m.handshake.on = true
	m.pingServer()
}

func (m *Mux) pingServer() {
	s := &m.handshake.settling
	s.pinged, s.again = true, false
	m.askOwn(mcp.MethodPing, "", "{}")
}

// settled takes the answer to a ping.
func (m *Mux) settled() {
	s := &m.handshake.settling
	s.pinged = false
	switch {
	case !s.on || s.asking > 0:
	case s.again:
		m.pingServer()
	default:
		s.on = false
		m.resumeCalls()
	}
}

// rootsAnswered takes the news that the server has been answered.
func (m *Mux) rootsAnswered() {
	s := &m.handshake.settling
	s.asking--
	if s.again = true; s.on && s.asking == 0 && !s.pinged {
		m.pingServer()
	}
}
