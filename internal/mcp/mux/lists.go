package mux

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"mcp-tether/internal/mcp"
)

// A list of the server's is compared with what the client has: tools, prompts, resources. If a new server has another, the client
// is told to look again (up to 2025-11-25, server/tools, "List Changed Notification").

// kinds are the lists that a server may have: of its capabilities, and of the templates of resources.
func kinds() []string { return []string{"tools", "prompts", "resources", "resources/templates"} }

// changedMethod is that of the news that a list has changed. That of resources is about their templates as well.
func changedMethod(kind string) string {
	kind, _, _ = strings.Cut(kind, "/")
	return "notifications/" + kind + "/list_changed"
}

// isFirst reports whether a request asks for the first page of a list.
func (r *request) isFirst() bool {
	return r.msg.Text(r.msg.Params, "cursor") == ""
}

// mayChange reports whether the client knows that a list may change.
func (h *handshake) mayChange(kind string) bool {
	capability, _, _ := strings.Cut(kind, "/")
	return string(mcp.ValueAt(h.result, "capabilities", capability, "listChanged")) == "true"
}

// learnList takes an answer to a client that is alone.
func (m *Mux) learnList(kind string, msg mcp.Message, told bool) {
	l := List{Told: told}
	if !msg.IsError && !isPaged(msg) {
		l.Sum = sumOf(msg)
	}
	m.lists[kind] = l
}

// isPaged reports whether an answer is a page of a list, of which more follow.
func isPaged(msg mcp.Message) bool {
	return msg.Text(msg.Result, "nextCursor") != ""
}

func sumOf(msg mcp.Message) uint64 {
	result := msg.Result.Of(msg.Raw)
	if text, err := json.Marshal(json.RawMessage(result)); err == nil { // As it is kept for later sessions.
		result = text
	}
	h := fnv.New64a()
	_, _ = h.Write(result)
	return h.Sum64()
}

// readLists asks a new server for the lists that the client has, and tells the client to look again at those that cannot be
// compared. Of a list that may not change the client must have been given what this server has.
func (m *Mux) readLists() {
	if m.handshake.phase != phaseDone {
		return
	}
	told := ""
	for _, kind := range kinds() {
		l, known := m.lists[kind]
		switch may := m.handshake.mayChange(kind); {
		case !m.Alone && may, known && may && l.Sum == 0:
			if method := changedMethod(kind); method != told {
				m.tellChanged(method)
				told = method
			}
		case known && l.Sum != 0 && (may || l.Told):
			m.askAgain(kind+"/list", kind, "{}")
		}
	}
}

func (m *Mux) tellChanged(method string) {
	m.toAll(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`+"\n", method))
}

// listRead takes the answer of a new server. An error says nothing of the list.
func (m *Mux) listRead(kind string, msg mcp.Message) {
	l := m.lists[kind]
	may := m.handshake.mayChange(kind)
	switch {
	case !msg.IsError && sumOf(msg) == l.Sum:
		l.Told = false
		m.lists[kind] = l
	case may:
		m.saveChanged(kind)
		m.tellChanged(changedMethod(kind))
	case !msg.IsError:
		m.server.failed = fmt.Sprintf("the server has changed: its list of %s is not the one that the client was given", kind)
		m.server.changed = true
		m.save(m.handshake.initialize, Published{Answers: map[string]Answer{kind + "/list": {}}})
	}
}

// listsOf are the lists that the server says have changed by a notification.
func listsOf(method string) (changed []string) {
	for _, kind := range kinds() {
		if method == changedMethod(kind) {
			changed = append(changed, kind)
		}
	}
	return changed
}
