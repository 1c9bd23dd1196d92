package mux

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"mcp-tether/mcp"
)

// phase is how far this server's handshake is.
type phase uint8

const (
	// idle: it has not begun.
	idle phase = iota
	// asked: the server has initialize and has not answered.
	asked
	// answered: a client has the answer and is to confirm it.
	answered
	// done: the server has been told that the client is ready.
	done
)

// handshake is that of the first client, which is every client's (up to 2025-11-25, basic/lifecycle).
type handshake struct {
	phase phase
	// params are those of the first initialize, result is what the server answered; nil: no client has begun.
	params, result []byte
	// latest is the answer of the last server, which may offer more.
	latest []byte
	// waiting are the requests of others while the first is open, with their lines.
	waiting []*call
	lines   [][]byte
	// roots says that the server has asked a client for its roots, which it may use for all.
	roots bool
	// modern says that the server has answered a request that needs no handshake.
	modern bool
}

// misfit says why a request cannot be served by this server; "" if it can.
func (m *Mux) misfit(r request, k *call) string {
	h := &m.handshake
	if k.method != mcp.MethodInitialize {
		if k.modern && k.method != mcp.MethodDiscover && h.params != nil {
			return "the server has begun with a handshake, and this client uses none"
		}
		return ""
	}
	switch {
	case h.modern:
		return "the server serves clients without a handshake, and this client begins with one"
	case h.params == nil:
		return ""
	}
	return m.unlike(r.params.of(r.msg.Raw))
}

// unlike says how a client differs from the first one; "" if the server cannot tell them apart.
func (m *Mux) unlike(params []byte) string {
	h := &m.handshake
	for _, key := range []string{"protocolVersion", "capabilities"} {
		before, now := mcp.ValueAt(h.params, key), mcp.ValueAt(params, key)
		if !mcp.SameJSON(before, now) {
			return fmt.Sprintf("another client began it with the %s %s, and this one has %s", key, show(before), show(now))
		}
	}
	if h.roots && mcp.ValueAt(params, "capabilities", "roots") != nil {
		return "the server works with the roots of another client"
	}
	return ""
}

func show(raw json.RawMessage) string {
	const longest = 200
	switch {
	case raw == nil:
		return "missing"
	case len(raw) > longest:
		return fmt.Sprintf("%.*s...", longest, raw)
	}
	return string(raw)
}

// initialize takes that request of a client which fits.
func (m *Mux) initialize(r request, k *call) {
	h := &m.handshake
	m.open(k)
	switch {
	case h.result != nil:
		m.met(k)
	case h.params != nil:
		h.waiting = append(h.waiting, k)
		h.lines = append(h.lines, m.line(r, k, edit{}))
	default:
		h.params = bytes.Clone(r.params.of(r.msg.Raw))
		m.send(k, m.line(r, k, edit{}))
	}
}

// met answers initialize from the kept result.
func (m *Mux) met(k *call) {
	m.close(k)
	if k.client == nil {
		return
	}
	k.client.met = true
	m.note(k.client)
	m.answer(k, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", k.ids[0], m.handshake.result))
	m.adjustLevel()
}

// initialized takes the server's answer to initialize.
func (m *Mux) initialized(k *call, msg mcp.Message) {
	h := &m.handshake
	result := at(msg.Raw, "result")
	switch {
	case k.own:
		m.repeated(k, msg)
		return
	case msg.IsError || result.to == 0:
		h.phase, h.params = idle, nil
		m.deliver(k, msg, edit{})
		m.nextHandshake()
		return
	}
	h.result = bytes.Clone(result.of(msg.Raw))
	h.latest = h.result
	h.phase = answered
	if k.client != nil {
		k.client.met = true
		m.note(k.client)
	}
	m.deliver(k, msg, edit{})
	for _, waiting := range h.waiting {
		m.met(waiting)
	}
	h.waiting, h.lines = nil, nil
	m.confirmAlone()
	m.sendHeld()
}

// nextHandshake lets the next client try, after the first one's was refused.
func (m *Mux) nextHandshake() {
	h := &m.handshake
	if len(h.waiting) == 0 {
		m.sendHeld()
		return
	}
	k, line := h.waiting[0], h.lines[0]
	h.waiting, h.lines = h.waiting[1:], h.lines[1:]
	h.params = bytes.Clone(at(line, "params").of(line))
	m.send(k, line)
}

// confirm takes the client's word that it is ready. The server hears of it once.
func (m *Mux) confirm(c *client, r request) {
	if !c.met {
		return
	}
	c.ready = true
	m.note(c)
	if m.handshake.phase == answered && m.up {
		m.known[c.id] = true
		m.handshake.phase = done
		m.toServer(splice(r.msg.Raw))
	}
}

// confirmAlone finishes a handshake whose clients have all left.
func (m *Mux) confirmAlone() {
	h := &m.handshake
	if h.phase == answered && m.up && !slices.ContainsFunc(m.order, func(c *client) bool { return c.met }) {
		h.phase = done
		m.toServer(initializedLine())
	}
}

func initializedLine() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`+"\n", mcp.MethodInitialized)
}

// repeated takes the answer of a new server to the handshake that its clients had with the last one. What they rely on must
// be there.
func (m *Mux) repeated(k *call, msg mcp.Message) {
	h := &m.handshake
	m.close(k)
	now := mcp.ValueAt(msg.Raw, "result")
	if msg.IsError || now == nil {
		m.breakWith("the server that was started anew refuses the handshake that the last one accepted")
		return
	}
	for _, key := range []string{"protocolVersion", "capabilities"} {
		if lost := mcp.Lost(key, mcp.ValueAt(h.result, key), mcp.ValueAt(now, key)); lost != "" {
			m.breakWith("the server that was started anew is another one: " + lost)
			return
		}
	}
	h.phase = done
	m.toServer(initializedLine())
	if !mcp.SameJSON(mcp.ValueAt(h.latest, "capabilities"), mcp.ValueAt(now, "capabilities")) ||
		!mcp.SameJSON(mcp.ValueAt(h.latest, "serverInfo"), mcp.ValueAt(now, "serverInfo")) {
		m.listsChanged()
	}
	h.latest = bytes.Clone(now)
	m.restore()
	m.sendHeld()
}

// breakWith ends what waits: no server can take the last one's place.
func (m *Mux) breakWith(reason string) {
	m.broken = reason
	m.failAll(reason)
}

// listsChanged tells clients to look again at each list that they were told may change.
func (m *Mux) listsChanged() {
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if string(mcp.ValueAt(m.handshake.result, "capabilities", kind, "listChanged")) == "true" {
			m.toAll(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`+"\n", kind))
		}
	}
}

// toAll gives a line to each client that knows the server.
func (m *Mux) toAll(line []byte) {
	for _, c := range m.order {
		if c.met || c.modern {
			m.toClient(c, line)
		}
	}
}
