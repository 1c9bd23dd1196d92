package mux

import (
	"bytes"

	"mcp-tether/internal/mcp"
)

// batch collects the answers to a batch of a client (2025-03-26, basic/index, "Batching"). The server gets the messages one
// by one.
type batch struct {
	client *client
	// waiting counts the calls that are not answered, and one while the batch is being read.
	waiting int
	parts   [][]byte
	size    int64
}

func (m *Mux) batchOf(c *client, messages []mcp.Message) ([]Out, error) {
	b := &batch{client: c, waiting: 1}
	for _, msg := range messages {
		if msg.Kind == mcp.Request && (msg.Method == mcp.MethodInitialize || saysVersion(msg)) {
			// initialize must not be in a batch (2025-03-26, basic/lifecycle), and there are none where requests name a
			// version.
			from, to := msg.IDSpan()
			m.refuse(c, string(msg.Raw[from:to]), codeInvalid, "must not be part of a batch", b)
			continue
		}
		if err := m.clientSays(c, msg, b); err != nil {
			return nil, err
		}
	}
	b.waiting--
	m.flush(b)
	return m.out, nil
}

func saysVersion(msg mcp.Message) bool {
	return at(msg.Raw, "params", "_meta", mcp.MetaVersion).to > 0
}

// addTo takes an answer. If there is too much to keep, the client gets what there is.
func (m *Mux) addTo(b *batch, line []byte) {
	b.parts = append(b.parts, bytes.TrimSuffix(line, []byte("\n")))
	b.size += int64(len(line))
	b.client.held += int64(len(line))
	b.client.open++
	if b.size > m.limits.Held {
		m.write(b)
	}
	m.flush(b)
}

// flush writes the answers when all have come.
func (m *Mux) flush(b *batch) {
	if b.waiting == 0 {
		m.write(b)
	}
}

func (m *Mux) write(b *batch) {
	if len(b.parts) == 0 {
		return
	}
	line := append([]byte("["), bytes.Join(b.parts, []byte(","))...)
	m.toClient(b.client, append(line, "]\n"...))
	b.client.held -= b.size
	b.client.open -= len(b.parts)
	b.parts, b.size = nil, 0
}
