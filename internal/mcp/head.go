package mcp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// member is a member of a message that a relay must know.
type member uint8

const (
	memberOther member = iota
	memberID
	memberMethod
	memberResult
	memberError
)

// memberOf reads a key with its quotes. The case of keys counts, as in the protocol. encoding/json ignores case when it
// fills a struct.
func memberOf(raw []byte) member {
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = []byte(`"` + text(raw) + `"`)
	}
	switch string(raw) {
	case `"id"`:
		return memberID
	case `"method"`:
		return memberMethod
	case `"result"`:
		return memberResult
	case `"error"`:
		return memberError
	}
	return memberOther
}

// head is what was found of the message that is being read. If a member comes twice, the last one counts, as in
// JavaScript, Python and Go.
type head struct {
	id, method           []byte // as JSON
	hasID, badID         bool   // bad: cannot be an id
	hasMethod, badMethod bool
	hasResult            bool
	hasError, failed     bool // failed: the error is not null
	// idFrom and idTo are where in the message the id is. from is where the value that is being read begins.
	from, idFrom, idTo int64
}

func (h *head) reset() { *h = head{id: h.id[:0], method: h.method[:0]} }

// set takes the value of a member, which ended at to. first is the value's first byte. value is the value itself, where
// it is a scalar and the member matters.
func (h *head) set(m member, first byte, value *token, to int64) {
	switch m {
	case memberID:
		h.hasID = true
		h.badID = value.over || first == '{' || first == '['
		h.id = append(h.id[:0], value.bytes...)
		h.idFrom, h.idTo = h.from, to
	case memberMethod:
		h.hasMethod = true
		h.badMethod = value.over || first != '"'
		h.method = append(h.method[:0], value.bytes...)
	case memberResult:
		h.hasResult = true
	case memberError:
		h.hasError, h.failed = true, first != 'n'
	}
}

// message makes a Message of what was found.
func (h *head) message() Message {
	m := Message{idFrom: h.idFrom, idTo: h.idTo}
	if h.hasID {
		var ok bool
		if m.ID, ok = NormalID(h.id); !ok || h.badID {
			return Message{Kind: Unclear}
		}
	}
	switch {
	case h.badMethod:
		return Message{Kind: Unclear}
	case h.hasMethod && h.hasID:
		m.Kind, m.Method = Request, text(h.method)
	case h.hasMethod:
		m.Kind, m.Method = Notification, text(h.method)
	case h.hasResult, h.hasError:
		m.Kind, m.IsError = Response, h.failed
	default:
		return Message{}
	}
	return m
}

// text is what a JSON string says, "" if it says nothing that can be read.
func text(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}
