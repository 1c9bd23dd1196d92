package mux

import (
	"bytes"
	"slices"

	"mcp-tether/internal/mcp"
)

// A call waits here while there is no server that takes it.

// acceptsCalls reports whether the server takes requests now.
func (m *Mux) acceptsCalls() bool {
	if s := &m.server; s.away || s.leaving || s.stage != served {
		return false
	}
	return m.Alone || m.handshake.phase != phaseAsked
}

// send gives a call to the server, now or as soon as it takes requests.
func (m *Mux) send(k *call, line []byte) {
	if m.acceptsCalls() {
		m.sendNow(k, line)
		return
	}
	m.held = append(m.held, k)
	k.keep(line)
}

// keep keeps the line of a call that waits.
func (k *call) keep(line []byte) {
	k.line = bytes.Clone(line)
	if k.client != nil {
		k.client.held += int64(len(line))
	}
}

// take takes the kept line back.
func (k *call) take() []byte {
	line := k.line
	k.line = nil
	if k.client != nil {
		k.client.held -= int64(len(line))
	}
	return line
}

// sendHeld gives the server what waits for it.
func (m *Mux) sendHeld() {
	held := m.held
	m.held = nil
	for _, k := range held {
		switch {
		case k.method == "": // What cannot be answered.
			m.toServerFrom(k.client, k.take())
		case k.method == mcp.MethodInitialize && !m.Alone && m.handshake.result != nil:
			k.take()
			m.answerInitialize(k)
		default:
			m.send(k, k.take())
		}
	}
}

// unhold takes a call from those that wait.
func (m *Mux) unhold(k *call) {
	if k.line == nil {
		return
	}
	k.take()
	m.held = slices.DeleteFunc(m.held, func(other *call) bool { return other == k })
}

// Waits reports whether something waits for a server.
func (m *Mux) Waits() bool { return len(m.held) > 0 }

// First is what tells most of a client that is alone: its handshake, or else the first line that waits for a server; nil if it has
// said nothing.
func (m *Mux) First() []byte {
	if m.handshake.initialize != "" {
		return []byte(m.handshake.initialize)
	}
	if len(m.held) > 0 {
		return m.held[0].line
	}
	return nil
}

// Held is how many bytes wait for a server.
func (m *Mux) Held() (size int64) {
	for _, c := range m.clients {
		size += c.held
	}
	return size
}

// RefuseHeld answers each request that waits for a server with an error. It drops what else waits, and says what that was.
func (m *Mux) RefuseHeld(why string) (outs []Out, dropped []string) {
	m.begin()
	held := m.held
	m.held = nil
	for _, k := range held {
		if line := k.take(); k.method == "" {
			msg := mcp.Parse(line)
			dropped = append(dropped, msg.Method)
			continue
		}
		m.lose(k, why)
	}
	return m.out, dropped
}
