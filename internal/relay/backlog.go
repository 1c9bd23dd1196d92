package relay

import (
	"bytes"

	"mcp-tether/internal/mcp"
)

// backlog is whole lines of the client that wait for a server. A call that the client cancels meanwhile leaves it together
// with the cancellation. The zero value is empty.
type backlog struct {
	lines []byte
	// open counts the calls that wait by their id, and cancelled those that are to be left out.
	open, cancelled map[string]int
	// left is how many lines are left.
	left int
}

// add appends a line. id is that of the call in it, "" if it has something else in it.
func (b *backlog) add(line []byte, id string) {
	if b.left++; len(b.lines) == 0 && len(line) > bulkBuffer {
		b.lines = line // It was put together, so it is no part of a buffer, and need not be copied again.
	} else {
		b.lines = append(b.lines, line...)
	}
	if id != "" {
		if b.open == nil {
			b.open, b.cancelled = map[string]int{}, map[string]int{}
		}
		b.open[id]++
	}
}

// cancel leaves out a call, and reports whether it waits.
func (b *backlog) cancel(id string) bool {
	if b.open[id] == 0 {
		return false
	}
	b.open[id]--
	b.cancelled[id]++
	if b.left--; b.left == 0 {
		*b = backlog{}
	}
	return true
}

// take gives the lines that are left, and empties the backlog. s reads them.
func (b *backlog) take(s *mcp.Scanner) []byte {
	lines, cancelled := b.lines, b.cancelled
	*b = backlog{}
	if len(cancelled) == 0 {
		return lines
	}
	kept := lines[:0]
	for line := range bytes.Lines(lines) {
		id := ""
		s.Line(bytes.TrimSuffix(line, []byte("\n")), func(m mcp.Message) { id = callID(m) })
		if cancelled[id] > 0 {
			cancelled[id]--
			continue
		}
		kept = append(kept, line...)
	}
	return kept
}

// callID is the id of a call that can be cancelled before a server has it, "" for any other message. The handshake cannot be
// cancelled, and of a batch no part is left out.
func callID(m mcp.Message) string {
	if m.Kind != mcp.Request || !m.Line || m.Method == mcp.MethodInitialize || m.ID == mcp.IDNull {
		return ""
	}
	return m.ID
}
