package mux

import (
	"slices"

	"mcp-tether/internal/mcp"
)

// levels are the log levels, from the most verbose on (2025-11-25, server/utilities/logging). A level's number is its place
// from 1 on.
func levels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// standardLevel is the level of a client that has asked for none, once another client has asked for one.
const standardLevel = 2

func levelNumber(name string) int { return slices.Index(levels(), name) + 1 }

// setLevel takes a client's wish. The server is asked for the lowest level that a client has asked for.
func (m *Mux) setLevel(c *client, r request, k *call) {
	m.open(k)
	level := levelNumber(k.target)
	if level == 0 { // The server will say what it thinks of it.
		m.send(k, m.line(r, k, mcp.Edit{}))
		return
	}
	c.level = level
	k.level = m.lowest()
	m.send(k, m.line(r, k, replace(r.target, string(mcp.Quote(levels()[k.level-1])))))
}

// levelSet takes the server's answer.
func (m *Mux) levelSet(k *call, msg mcp.Message) {
	if msg.IsError {
		m.server.level = 0
	}
	m.deliver(k, msg, mcp.Edit{})
}

// lowest is the lowest level that a client has asked for, 0 if none has. Many clients may be joined by one that asks for none.
func (m *Mux) lowest() (low int) {
	for _, c := range m.clients {
		if c.level > 0 && (low == 0 || c.level < low) {
			low = c.level
		}
	}
	if m.Alone {
		return low
	}
	return min(low, standardLevel)
}

// log gives a log message to each client that wants its level. As long as the server knows of one client only, it is about no
// other one.
func (m *Mux) log(msg mcp.Message, name string) {
	level, line := levelNumber(name), mcp.Splice(msg.Raw)
	for _, c := range m.clients {
		if m.wants(c, level) && (m.client(m.server.sole) == nil || c.id == m.server.sole) {
			m.toClient(c, line)
		}
	}
}

// wants reports whether a client is to get log messages of a level; 0 is an unknown level.
func (m *Mux) wants(c *client, level int) bool {
	switch {
	case !c.initialized:
		return c.callWants(level)
	case level == 0 || m.server.level == 0:
		return true
	case c.level == 0:
		return level >= standardLevel
	}
	return level >= c.level
}

// callWants reports whether a call of a client asks for log messages of a level. A message does not say which call it is about
// (2026-07-28, server/utilities/logging).
func (c *client) callWants(level int) bool {
	for _, k := range c.calls {
		if k.sent && k.level > 0 && (level == 0 || level >= k.level) {
			return true
		}
	}
	return false
}
