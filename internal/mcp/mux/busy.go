package mux

import (
	"fmt"
	"slices"
	"strings"
)

// Busy is "" when nothing stands in the way of ending the server; otherwise it says for the log what does.
func (m *Mux) Busy() string {
	if h := &m.handshake; h.phase != phaseDone && !(h.modern && h.result == nil) {
		return "handshake unfinished"
	}
	var methods []string
	for _, k := range m.calls {
		if k.agreed == nil {
			methods = append(methods, k.method)
		}
	}
	if len(methods) > 0 {
		return unanswered(methods, "client")
	}
	for _, a := range m.asks {
		methods = append(methods, a.method)
	}
	if len(methods) > 0 {
		return unanswered(methods, "server")
	}
	if why := m.server.tasksRun(); why != "" {
		return why
	}
	return m.server.awake
}

// unreadable is what keeps a server awake of which nobody knows what it was told.
const unreadable = "a message that could not be read"

// unanswered says for the log what is open: "2 requests of the client unanswered (ping, tools/call)".
func unanswered(methods []string, side string) string {
	n := len(methods)
	slices.Sort(methods)
	return fmt.Sprintf("%s of the %s unanswered (%s)", count(n, "request"), side, strings.Join(slices.Compact(methods), ", "))
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// tasksRun says which tasks keep the server awake.
func (s *server) tasksRun() string {
	running, unfetched := 0, 0
	for _, t := range s.tasks {
		switch {
		case !t.ended:
			running++
		case !t.fetched:
			unfetched++
		}
	}
	switch {
	case running > 0:
		return count(running, "task") + " of the client running"
	case unfetched > 0:
		return count(unfetched, "task") + " of the client with a result that was not fetched"
	}
	return ""
}

// Works reports whether the server has an open request of a client that may have begun work.
func (m *Mux) Works() bool {
	for _, k := range m.calls {
		if k.client != nil && k.sent && k.rule.Work {
			return true
		}
	}
	return false
}

// TakeUsed reports whether a message that matters has passed since the last call. A ping does not matter, nor does a message
// without effect, such as an answer to no question.
func (m *Mux) TakeUsed() bool {
	used := m.used
	m.used = false
	return used
}
