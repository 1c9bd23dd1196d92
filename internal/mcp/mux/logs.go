package mux

import (
	"fmt"
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

// logs is what the server knows of log levels: the most verbose one that a client asked for.
type logs struct {
	// sent is the level that was sent to the server last; 0: none.
	sent int
	// works says that a server has accepted a level.
	works bool
}

// setLevel takes a client's wish. The server is asked for another level if it must send more or less than it does.
func (m *Mux) setLevel(c *client, r request, k *call) {
	level := levelNumber(k.target)
	if level == 0 { // The server will say what it thinks of it.
		k.want = m.logs.sent
		m.open(k)
		m.send(k, m.line(r, k, edit{}))
		return
	}
	before := c.level
	c.level = level
	want := m.wanted()
	if c.wishes == 0 && m.logs.works && m.acceptsCalls() && want == m.logs.sent {
		m.noteKnown(c)
		m.toClient(c, resultLine(k.id))
		return
	}
	c.level, c.wish = before, level
	c.wishes++
	k.level, k.want = level, want
	m.open(k)
	m.send(k, m.line(r, k, edit{r.target, string(mcp.Quote(levels()[want-1]))}))
}

// levelSet takes the server's answer.
func (m *Mux) levelSet(k *call, msg mcp.Message) {
	if msg.IsError {
		m.logs.sent = 0
		m.logs.works = m.logs.works && !k.own
	} else {
		m.logs.works = m.logs.works || k.level > 0 || k.own
		if c := k.client; c != nil && k.level > 0 && k.n > c.levelOf {
			c.level, c.levelOf = k.level, k.n
		}
	}
	m.levelDone(k)
	m.deliver(k, msg, edit{})
	m.adjustLevel()
}

// levelDone takes a wish of a client from those that are open.
func (m *Mux) levelDone(k *call) {
	if c := k.client; c != nil && k.level > 0 && k.method == mcp.MethodSetLevel {
		if c.wishes--; c.wishes == 0 {
			c.wish = 0
		}
	}
}

// lowest is the most verbose level that a client has or is about to have; 0: none.
func (c *client) lowest() int {
	if c.level == 0 || c.wish > 0 && c.wish < c.level {
		return c.wish
	}
	return c.level
}

// wanted is the most verbose level that a client is to get; 0 if none has asked for one.
func (m *Mux) wanted() int {
	want := 0
	asked := slices.ContainsFunc(m.order, func(c *client) bool { return c.lowest() > 0 })
	for _, c := range m.order {
		level := c.lowest()
		if level == 0 && c.met && asked {
			level = standardLevel
		}
		if level > 0 && (want == 0 || level < want) {
			want = level
		}
	}
	return want
}

// adjustLevel sets the server's level when it must send more or less than it does. When no client asks for a level any
// more, the server goes back to standardLevel.
func (m *Mux) adjustLevel() {
	if !m.logs.works || !m.acceptsCalls() {
		return
	}
	want := m.wanted()
	if want == 0 && m.logs.sent > 0 {
		want = standardLevel
	}
	if want == m.logs.sent {
		return
	}
	m.logs.sent = want
	m.askOwn(mcp.MethodSetLevel, "", fmt.Sprintf(`{"level":%q}`, levels()[want-1]))
}

// log gives a log message to each client that wants its level. As long as the server knows of one client only, it is about no
// other one.
func (m *Mux) log(msg mcp.Message, name string) {
	level := levelNumber(name)
	var line []byte
	for _, c := range m.order {
		if !m.wants(c, level) || m.clients[m.sole] != nil && c.id != m.sole {
			continue
		}
		if line == nil {
			line = splice(msg.Raw)
		}
		m.toClient(c, line)
	}
}

// wants reports whether a client is to get log messages of a level; 0 is an unknown level.
func (m *Mux) wants(c *client, level int) bool {
	switch {
	case !c.met:
		return c.listens(level)
	case level == 0 || m.logs.sent == 0 && c.lowest() == 0:
		return true
	case c.lowest() == 0:
		return level >= standardLevel
	}
	return level >= c.lowest()
}

// listens reports whether a call of a client asks for log messages of a level. A message does not say which call it is about
// (2026-07-28, server/utilities/logging).
func (c *client) listens(level int) bool {
	for _, k := range c.calls {
		for ; k != nil; k = k.next {
			if k.sent && k.level > 0 && (level == 0 || level >= k.level) {
				return true
			}
		}
	}
	return false
}
