package mux

import (
	"bytes"
	"fmt"

	"mcp-tether/internal/mcp"
)

// server is how far the present server is, of those that come one after another. What a client wants is kept, and compared with
// what the server was told.
type server struct {
	// away: there is none. leaving: it is being ended. renames: an earlier one has asked something, so ids of its questions are not
	// shown again.
	away, leaving, renames bool
	stage                  stage
	// sole is the only client that it has known, 0 if there was none, and several for more than one.
	sole Client
	// level is the log level that it was sent last, 0 for none.
	level int
	// subscribed are the resources of which it has accepted a subscription, and not ended it.
	subscribed map[string]bool
	// failed says why it cannot take the place of the last one, and changed that no later one can.
	failed  string
	changed bool
	// tasks are what clients have begun, by their ids.
	tasks map[string]*task
	// answered says that it has answered anything.
	answered bool
	// awake says why it must not be ended, beside what is open; "" for nothing.
	awake string
}

func newServer() server { return server{subscribed: map[string]bool{}, tasks: map[string]*task{}} }

// stage is how far a server is that takes the place of another.
type stage uint8

const (
	// served: it knows all that it must, or is the first.
	served stage = iota
	// initializing: it has initialize.
	initializing
	// repeating: it was told what clients want.
	repeating
	// awaitingRoots: it is to ask for the roots, and get them. Then it is to answer a ping, to have a moment, and to answer another.
	awaitingRoots
	firstPing
	resting
	lastPing
)

// ServerLeaves says that the server is being ended: it is asked nothing more, and asks nothing more.
func (m *Mux) ServerLeaves() { m.server.leaving = true }

// ServerGone says that the server has ended. The calls that it has not answered get an error that says why. What waits for a
// server, and the subscriptions that another can be sent again, stay.
func (m *Mux) ServerGone(why string) []Out {
	m.begin()
	if why == "" {
		why = "the server has ended"
	}
	var calls []*call
	for _, k := range m.calls {
		calls = append(calls, k)
	}
	byNumber(calls)
	for _, k := range calls {
		switch {
		case k.agreed != nil:
			k.sent, k.again = false, false
		case k.sent || k.own:
			m.lose(k, why)
		}
	}
	for _, a := range m.openAsks() {
		m.toClient(a.client, append(mcp.Cancelled(a.ours, "the server has ended"), '\n'))
		m.forget(a)
	}
	m.server = newServer()
	m.server.away, m.server.renames = true, m.lastAsk > 0
	m.roots = roots{RootsState: m.roots.RootsState}
	return m.out
}

// lose answers a call that no server will answer.
func (m *Mux) lose(k *call, why string) {
	m.close(k)
	if h := &m.handshake; k.method == mcp.MethodInitialize && h.result == nil {
		h.params, h.phase = nil, phaseIdle
	}
	c := k.client
	if c == nil {
		return
	}
	if k.method == mcp.MethodSubscribe && c.uris[k.target] == k.n {
		delete(c.uris, k.target)
	}
	m.toClient(c, mcp.ErrorReply(k.id, mcp.CodeInternal, why))
}

// ServerStarted says that there is another server. It gets what the last one knew, and then what waits.
func (m *Mux) ServerStarted() []Out {
	m.begin()
	m.server.away, m.server.answered = false, false
	for _, c := range m.clients {
		if c.initialized || c.modern {
			m.noteKnown(c)
		}
	}
	h := &m.handshake
	if h.result == nil {
		m.server.stage = repeating
		m.repeatAll()
		return m.out
	}
	m.server.stage = initializing
	k := &call{own: true, method: mcp.MethodInitialize, rule: mcp.RuleOf(mcp.MethodInitialize)}
	line := []byte(h.initialize)
	if m.Alone {
		k.ours = mcp.Parse(line).ID
	}
	if m.open(k); !m.Alone {
		line = mcp.Splice(line[:len(line)-1], replace(mcp.At(line, "id"), k.ours))
	}
	m.repeat(k, line)
	return m.out
}

// repeat asks the server what another one was asked before.
func (m *Mux) repeat(k *call, line []byte) {
	k.again = true
	m.sendNow(k, bytes.Clone(line))
}

// askAgain asks for something in words of our own.
func (m *Mux) askAgain(method, target, params string) { m.repeat(m.own(method, target, params)) }

// compareHandshake takes the answer to the handshake of a server that takes the place of another.
func (m *Mux) compareHandshake(k *call, msg mcp.Message) {
	h, s := &m.handshake, &m.server
	m.close(k)
	result := msg.Result.Of(msg.Raw)
	switch {
	case msg.IsError:
		s.failed = "the server refuses the handshake that it accepted before: " + msg.Text(msg.Error, "message")
		return
	case len(result) == 0 || result[0] != '{':
		s.failed = "the server's handshake reply is no object"
		return
	}
	if why := mcp.Lost(h.result, result); why != "" {
		s.failed = "the server has changed: " + why
		m.noteChanged()
		return
	}
	m.saveInitialize(result)
	h.phase = phaseAnswered
	if h.initialized != "" {
		m.finishHandshake([]byte(h.initialized))
	}
	s.stage = repeating
	m.repeatAll()
}

// noteChanged notes that no server will take the place of the last one any more.
func (m *Mux) noteChanged() {
	m.server.changed = true
	m.ForgetSaved()
}

// repeatAll tells a server what clients want: log level, subscriptions, news of roots. It is asked for the lists that clients have.
func (m *Mux) repeatAll() {
	m.readLists()
	if low := m.lowest(); low > 0 {
		m.server.level = low
		m.askAgain(mcp.MethodSetLevel, "", fmt.Sprintf(`{"level":%q}`, levels()[low-1]))
	}
	for _, uri := range m.allSubscribed() {
		m.askAgain(mcp.MethodSubscribe, uri, fmt.Sprintf(`{"uri":%s}`, mcp.Quote(uri)))
	}
	for _, k := range m.openListens() {
		m.repeat(k, k.kept)
	}
	if m.roots.Changed != "" && m.roots.Use == rootsAtStart {
		m.toServer([]byte(m.roots.Changed))
	}
	m.advance()
}

// noteRepeated notes that a call was answered, or given up.
func (m *Mux) noteRepeated(k *call) {
	if !k.again {
		return
	}
	k.again = false
	if k.own && k.method == mcp.MethodSubscribe { // No server watched the resource meanwhile, so it may have changed; or it is gone.
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"uri":%s}}`+"\n", mcp.MethodUpdated, mcp.Quote(k.target))
		m.toSubscribers(line, func(subscribed string) bool { return subscribed == k.target })
	}
	m.advance()
}

// advance goes on with a server that takes the place of another, as far as it is.
func (m *Mux) advance() {
	s := &m.server
	if s.stage == served || s.stage == initializing || s.failed != "" || len(m.askedAgain()) > 0 {
		return
	}
	switch {
	case s.stage == repeating && m.awaitsRoots(), s.stage == lastPing && !m.hasRoots():
		s.stage = awaitingRoots
		m.advance()
	case s.stage == awaitingRoots && m.hasRoots():
		s.stage = firstPing
		m.askAgain(mcp.MethodPing, "", "{}")
	case s.stage == firstPing:
		s.stage = resting
	case s.stage == repeating, s.stage == lastPing:
		s.stage = served
		m.sendHeld()
	}
}

// askedAgain are what the server was asked again, and has not answered, in order.
func (m *Mux) askedAgain() (all []*call) {
	for _, k := range m.calls {
		if k.again {
			all = append(all, k)
		}
	}
	byNumber(all)
	return all
}

// Restored reports whether the server knows all that it must.
func (m *Mux) Restored() bool { return m.server.stage == served }

// Failed says why the server cannot take the place of the last one, "" if it can, and whether no later one can.
func (m *Mux) Failed() (why string, changed bool) { return m.server.failed, m.server.changed }

// Lacks says what a server has not done that takes too long.
func (m *Mux) Lacks() string {
	switch m.server.stage {
	case initializing:
		return "it did not answer the handshake"
	case awaitingRoots:
		return "it did not ask for the client's roots as the server before it did, or has no answer"
	}
	if left := m.askedAgain(); len(left) > 0 {
		return "it did not answer " + left[0].method
	}
	return "it was not ready"
}

// Answered reports whether the server has answered anything.
func (m *Mux) Answered() bool { return m.server.answered }
