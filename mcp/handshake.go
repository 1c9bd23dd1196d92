package mcp

import (
	"bytes"
	"errors"
	"fmt"
)

// handshake is how client and server met (up to 2025-11-25, basic/lifecycle): initialize, its answer, and
// notifications/initialized. Zero value: not begun. Another initialize begins another.
type handshake struct {
	begun bool
	// id and request are initialize, as the client sent it; request is nil if it was too large to keep.
	id      string
	request []byte
	// answered: the server has accepted it. result is what it said, nil if that was too large to keep or no object.
	answered bool
	result   []byte
	// initialized is the client's notification; confirmed: it came.
	initialized []byte
	confirmed   bool
}

func beginHandshake(m Message) handshake {
	return handshake{begun: true, id: m.ID, request: bytes.Clone(m.Raw)}
}

// answer takes the answer to initialize. One that is an error leaves the handshake unfinished.
func (h *handshake) answer(m Message) {
	if m.IsError {
		return
	}
	h.answered = true
	if result := dig(m.Raw, "result"); isObject(result) {
		h.result = bytes.Clone(result)
	}
}

func (h *handshake) confirm(m Message) {
	h.initialized, h.confirmed = bytes.Clone(m.Raw), true
}

func (h *handshake) done() bool { return h.answered && h.confirmed }

// lost says what of a finished handshake cannot be told again.
func (h *handshake) lost() string {
	switch {
	case !h.done():
		return ""
	case h.request == nil || h.initialized == nil:
		return "handshake of the client too large to repeat"
	case h.result == nil:
		return "handshake reply of the server too large or too odd to compare"
	}
	return ""
}

// replay tells a new server what the first was told.
func (h *handshake) replay() []Step {
	return []Step{
		{Line: asLine(h.request), AwaitID: h.id, Check: h.check()},
		{Line: asLine(h.initialized)},
	}
}

// check compares a new server's answer with the first one's. The client has been told that one, so what it may rely on
// must be the same: the version and the capabilities. Name and version of the program, and its instructions, are for
// people and models.
func (h *handshake) check() func(Message) error {
	before := h.result
	return func(m Message) error {
		if m.IsError {
			return fmt.Errorf("the server refuses the handshake that it accepted before: %s", failure(m))
		}
		now := dig(m.Raw, "result")
		if !isObject(now) {
			return errors.New("the server's handshake reply is too large or no object")
		}
		for _, key := range []string{"protocolVersion", "capabilities"} {
			if d := difference(key, dig(before, key), dig(now, key)); d != "" {
				return fmt.Errorf("the server's handshake reply differs from the first: %s", d)
			}
		}
		return nil
	}
}

// failure is what an error response says, for people.
func failure(m Message) string {
	if text := digText(m.Raw, "error", "message"); text != "" {
		return text
	}
	return "no message"
}

// asLine is a message with its newline. The message is copied: others keep it.
func asLine(raw []byte) []byte {
	return append(bytes.Clone(raw), '\n')
}
