package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// handshake is how client and server agreed on version and capabilities (up to 2025-11-25, basic/lifecycle): initialize,
// its answer, and notifications/initialized. The zero value has not begun. Another initialize begins another handshake.
type handshake struct {
	begun bool
	// id and request are initialize, as the client sent it; request is nil if it was too large to keep.
	id      string
	request []byte
	// answered says that the server has accepted it. result is its reply, nil if that was too large to keep or no object.
	answered bool
	result   []byte
	// latest is the reply of the last server, which may offer more.
	latest []byte
	// initialized is the client's notification; confirmed says that it came.
	initialized []byte
	confirmed   bool
	// before is the finished handshake that this one replaces, unless it is refused.
	before *handshake
}

func (h *handshake) begin(m Message) {
	next := handshake{begun: true, id: m.ID, request: bytes.Clone(m.Raw)}
	if h.done() {
		before := *h
		next.before = &before
	}
	*h = next
}

// answer takes the answer to initialize. An error leaves the handshake unfinished, or as it was.
func (h *handshake) answer(m Message) {
	if m.IsError {
		if h.before != nil {
			*h = *h.before
		}
		return
	}
	h.answered, h.before = true, nil
	if result := ValueAt(m.Raw, "result"); isObject(result) {
		h.result = bytes.Clone(result)
		h.latest = h.result
	}
}

func (h *handshake) confirm(m Message) {
	h.initialized, h.confirmed = bytes.Clone(m.Raw), true
}

func (h *handshake) done() bool { return h.answered && h.confirmed }

// lost says why a handshake that was answered cannot be repeated; "" if it can.
func (h *handshake) lost() string {
	switch {
	case !h.answered:
		return ""
	case h.request == nil || h.confirmed && h.initialized == nil:
		return "handshake of the client too large to repeat"
	case h.result == nil:
		return "handshake reply of the server too large or too odd to compare"
	}
	return ""
}

// ErrChanged is the error of a server that will never take the place of the last one. It is another program, or another
// version of it, and lacks something that the client relies on.
var ErrChanged = errors.New("the server has changed")

// replay lists what a new server must be sent to repeat the handshake. check takes its answer. A client that has not confirmed
// the first answer will confirm this one.
func (h *handshake) replay(check func(Message) ([]byte, error)) []Step {
	steps := []Step{{Line: asLine(h.request), AwaitID: h.id, Check: check}}
	if h.confirmed {
		steps = append(steps, Step{Line: asLine(h.initialized)})
	}
	return steps
}

// check compares a new server's answer with the first server's, which the client knows. What the client may rely on must
// be there: protocol version and capabilities. differs says that the server offers more, or that it is another program than
// the last one was, so it may have other lists.
func (h *handshake) check(m Message) (differs bool, err error) {
	if m.IsError {
		return false, fmt.Errorf("the server refuses the handshake that it accepted before: %s", failure(m))
	}
	now := ValueAt(m.Raw, "result")
	if !isObject(now) {
		return false, errors.New("the server's handshake reply is too large or no object")
	}
	if d := Lost(h.result, now); d != "" {
		return false, fmt.Errorf("%w: %s", ErrChanged, d)
	}
	differs = !SameJSON(ValueAt(h.latest, "serverInfo"), ValueAt(now, "serverInfo")) || Lost(now, h.latest) != ""
	h.latest = bytes.Clone(now)
	return differs, nil
}

// kinds are the lists that a server may have: of its capabilities, and of the templates of resources.
func kinds() []string { return []string{"tools", "prompts", "resources", "resources/templates"} }

// changedMethod is that of the news that a list has changed. That of resources is about their templates as well.
func changedMethod(kind string) string {
	kind, _, _ = strings.Cut(kind, "/")
	return "notifications/" + kind + "/list_changed"
}

// changed tells the client to look again at one list; nil if the client does not know that it may change.
func (h *handshake) changed(kind string) []byte {
	capability, _, _ := strings.Cut(kind, "/")
	if string(ValueAt(h.result, "capabilities", capability, "listChanged")) != "true" {
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`+"\n", changedMethod(kind))
}

// failure is the text of an error response.
func failure(m Message) string {
	if text := textAt(m.Raw, "error", "message"); text != "" {
		return text
	}
	return "no message"
}

// asLine copies a message, which its owner keeps, and adds the newline.
func asLine(raw []byte) []byte {
	return append(bytes.Clone(raw), '\n')
}
