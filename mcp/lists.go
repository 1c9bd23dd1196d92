package mcp

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// lists has a sum of each list that the client has read of the server: tools, prompts, resources. A new server may have
// others, and the client is told to look again (up to 2025-11-25, server/tools, "List Changed Notification"). Of a list that
// comes in pages nothing is known. The zero value knows none.
type lists struct {
	seed maphash.Seed
	sums map[string]uint64
}

// listKind is the kind of list that a request asks for from its beginning, "" if it does not.
func listKind(m Message) string {
	kind, ok := strings.CutSuffix(m.Method, "/list")
	if !ok || m.Raw == nil || mentions(m.Raw, "cursor") || kind != "tools" && kind != "prompts" && kind != "resources" {
		return ""
	}
	return kind
}

// learn takes the answer to a request for a list, and reports whether it is another list than before.
func (l *lists) learn(kind string, m Message) (changed bool) {
	if l.sums == nil {
		l.seed, l.sums = maphash.MakeSeed(), map[string]uint64{}
	}
	before, known := l.sums[kind]
	delete(l.sums, kind)
	result := ValueAt(m.Raw, "result")
	if m.IsError || result == nil || mentions(m.Raw, "nextCursor") {
		return known
	}
	l.sums[kind] = maphash.Bytes(l.seed, result)
	return known && l.sums[kind] != before
}

// replay reads again each list that the client was told may change.
func (c *Conversation) readLists() []Step {
	var steps []Step
	for _, kind := range kinds() {
		if _, known := c.lists.sums[kind]; !known || c.handshake.changed(kind) == nil {
			continue
		}
		id := c.ids.next()
		steps = append(steps, Step{
			Line:    fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"%s/list"}`+"\n", id, kind),
			AwaitID: id,
			Check: func(m Message) ([]byte, error) {
				if !c.lists.learn(kind, m) {
					return nil, nil
				}
				return c.handshake.changed(kind), nil
			},
		})
	}
	return steps
}
