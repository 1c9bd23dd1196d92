package mux

import (
	"bytes"
	"fmt"

	"mcp-tether/internal/mcp"
)

// phase is how far this server's handshake is.
type phase uint8

const (
	// phaseIdle: it has not begun.
	phaseIdle phase = iota
	// phaseAsked: the server has initialize and has not answered.
	phaseAsked
	// phaseAnswered: the only client has the answer and is to confirm it. For many clients the mux does so at once.
	phaseAnswered
	// phaseDone: the server was notified that the client is ready.
	phaseDone
)

// handshake is the first client's handshake, which counts for every client (up to 2025-11-25, basic/lifecycle).
type handshake struct {
	phase phase
	// params are those of the first initialize, nil if no client has begun. result is what the server answered.
	params, result []byte
	// initialize is that request as the server got it; initialized notifies the server that a client is ready.
	initialize, initialized string
	// modern says that the server has answered a request that needs no handshake, while there was none.
	modern bool
}

// Initializing reports whether the server has been sent initialize, and has not answered.
func (m *Mux) Initializing() bool { return m.handshake.phase == phaseAsked }

// Closed reports whether the server must get no other client, because it works with the roots of one: those that could share it
// have roots as well.
func (m *Mux) Closed() bool {
	return m.roots.asked && mcp.ValueAt(m.handshake.params, "capabilities", "roots") != nil
}

// mixes says why a request does not go with what the server was told by others; "" if it does. Clients that share a server begin
// alike, so this is for one that goes on otherwise.
func (m *Mux) mixes(r request, k *call) string {
	h := &m.handshake
	switch {
	case m.Alone:
	case k.method != mcp.MethodInitialize:
		if k.modern && k.method != mcp.MethodDiscover && h.params != nil {
			return "this server has begun with a handshake, and this request needs none"
		}
	case h.modern:
		return "this server serves clients without a handshake"
	case h.params != nil && !sameHandshake(h.params, r.msg.Params.Of(r.msg.Raw)):
		return "this server has begun with another protocol version, or with other capabilities of its client"
	}
	return ""
}

func sameHandshake(before, now []byte) bool {
	for _, key := range []string{"protocolVersion", "capabilities"} {
		if !mcp.SameJSON(mcp.ValueAt(before, key), mcp.ValueAt(now, key)) {
			return false
		}
	}
	return true
}

// provesModern takes what only a server says that needs no handshake. Beside a handshake it proves nothing: clients may probe.
func (m *Mux) provesModern() {
	if m.handshake.params == nil {
		m.handshake.modern = true
	}
}

// initialize takes the initialize request of a client.
func (m *Mux) initialize(r request, k *call) {
	h := &m.handshake
	m.open(k)
	switch k.client.modern = k.client.modern && m.Alone; {
	case m.Alone && h.result == nil:
		h.initialized = ""
	case m.Alone:
	case h.result != nil:
		m.answerInitialize(k)
		return
	case h.params == nil:
		h.params = bytes.Clone(r.msg.Params.Of(r.msg.Raw))
	}
	m.send(k, m.line(r, k, mcp.Edit{}))
}

// answerInitialize answers initialize from the kept result.
func (m *Mux) answerInitialize(k *call) {
	m.close(k)
	k.client.initialized = true
	m.toClient(k.client, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", k.id, m.handshake.result))
}

// handshakeAnswered takes the server's answer to initialize.
func (m *Mux) handshakeAnswered(k *call, msg mcp.Message) {
	if k.own {
		m.compareHandshake(k, msg)
		return
	}
	m.keepHandshake(k, msg)
	m.deliver(k, msg, mcp.Edit{})
	if m.Alone {
		return
	}
	if m.handshake.result != nil {
		m.finishHandshake(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`+"\n", mcp.MethodInitialized))
	}
	m.sendHeld()
}

// keepHandshake takes the answer to an initialize of a client. An error leaves all as it was.
func (m *Mux) keepHandshake(k *call, msg mcp.Message) {
	h := &m.handshake
	if result := msg.Result.Of(msg.Raw); !msg.IsError && len(result) > 0 && result[0] == '{' {
		h.result, h.params = bytes.Clone(result), bytes.Clone(mcp.ValueAt(k.kept, "params"))
		h.initialize = string(bytes.TrimSuffix(k.kept, []byte("\n"))) + "\n"
		if k.client != nil {
			k.client.initialized = true
		}
		m.saveInitialize(result)
	}
	switch {
	case h.result == nil:
		h.phase, h.params = phaseIdle, nil
	case h.initialized != "":
		h.phase = phaseDone
	default:
		h.phase = phaseAnswered
	}
}

// finishHandshake tells the server that a client is ready. One that is not there is told later.
func (m *Mux) finishHandshake(line []byte) {
	m.handshake.phase, m.handshake.initialized = phaseDone, string(line)
	if !m.server.away {
		m.toServer(line)
	}
}
