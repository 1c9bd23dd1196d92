package mcp

import (
	"bytes"
	"slices"
	"time"
)

// roots is what is known of the server's use of the client's roots: the directories that bound what it may touch
// (client/roots). A server asks for them and judges later calls by the answer, so a new server must have them before
// the first call. The protocol does not say when a server asks, but one that asked before it had any work does so at
// its start, or in its first seconds without an open call. What the client had said to make it ask is said again.
type roots struct {
	// since is when the client confirmed the first handshake. lists are its requests for a list that were open when the server first
	// asked, and changed its news that the roots have changed.
	since   time.Time
	lists   []request
	changed []byte
	// asked says that this server has asked. got says that the client's last answer to it had roots, refused that it was
	// an error.
	asked, got, refused bool
	// usual says that a server has asked at its start, late that one asked for the first time in the middle of its work.
	usual, late bool
	// tried says that this server has not taken the place of the last one yet. given says that of the servers before this one
	// that were used, the last that had an answer got roots.
	tried, given bool
	// working says that this server was given work that it might judge by the roots.
	working bool
}

// IsWork reports whether a server might judge a request by the roots. In line it would take most of a kilobyte each time.
//
//go:noinline
func IsWork(method string) bool {
	switch method {
	case MethodInitialize, MethodPing, MethodSetLevel, MethodSubscribe, MethodUnsubscribe, MethodDiscover,
		"tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return false
	}
	return true
}

// heard takes a message of the client. The news that the roots have changed may be why a server asks.
func (r *roots) heard(m Message) {
	if m.Method == MethodRootsChanged && !r.asked {
		r.changed = bytes.Clone(m.Raw)
	}
	r.working = r.working || m.Method == MethodRootsChanged || m.Kind == Request && IsWork(m.Method)
}

// rootsAtStart is how long after the handshake a question is still one of the start. A machine may be busy.
const rootsAtStart = 5 * time.Second

// ask takes the server's question for the roots. open are the client's requests that it has not answered.
func (r *roots) ask(open []request, now time.Time) {
	early := now.Sub(r.since) < rootsAtStart && !slices.ContainsFunc(open, func(q request) bool { return IsWork(q.method) })
	switch {
	case r.usual:
	case r.working && !early:
		r.late = true
	default:
		r.usual = true
		r.lists = slices.DeleteFunc(open, func(q request) bool { return q.lists == "" })
	}
	r.asked = true
}

// sayAgain lists what made the last server ask at its start, as the client wrote it.
func (r *roots) sayAgain() (steps []Step) {
	for _, q := range r.lists {
		steps = append(steps, Step{Line: asLine(q.line), AwaitID: q.id, Check: func(Message) ([]byte, error) { return nil, nil }})
	}
	if r.usual && r.changed != nil {
		steps = append(steps, Step{Line: asLine(r.changed)})
	}
	return steps
}

// next is what remains when the server has ended.
func (r *roots) next() roots {
	given := r.given
	if !r.tried {
		given = r.got || given && !r.refused
	}
	return roots{usual: r.usual, late: r.late, tried: true, given: given, lists: r.lists, changed: r.changed}
}

// unknown says why it could not be known whether a new server has the roots; "" if it could.
func (r *roots) unknown() string {
	if r.late && !r.usual {
		return "the server asked for the client's roots in the middle of its work"
	}
	return ""
}

// HasRoots reports whether this server has the client's roots, if it is one that asks for them. denied says that the
// client refuses a new server what it gave one before.
func (c *Conversation) HasRoots() (has, denied bool) {
	if !c.roots.usual {
		return true, false
	}
	for _, r := range c.server.requests.waiting() {
		if r.method == MethodRoots {
			return false, false
		}
	}
	return c.roots.asked, c.roots.refused && c.roots.given
}
