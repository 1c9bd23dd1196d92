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

// memberOf reads a key with its quotes. Keys are told apart by case, as the protocol does it and encoding/json, for
// structs, does not.
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

// head is what was found of the message that is being read. A member that comes twice counts as it came last, as
// JavaScript, Python and Go read it.
type head struct {
	id, method           []byte // as JSON
	hasID, badID         bool   // bad: cannot be an id
	hasMethod, badMethod bool
	hasResult            bool
	hasError, failed     bool // failed: the error is not null
}

func (h *head) reset() { *h = head{id: h.id[:0], method: h.method[:0]} }

// set takes the value of a member: its first byte, and the value itself where it is a scalar and the member matters.
func (h *head) set(m member, first byte, value *token) {
	switch m {
	case memberID:
		h.hasID = true
		h.badID = value.over || first == '{' || first == '['
		h.id = append(h.id[:0], value.bytes...)
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

// message sorts what was found.
func (h *head) message() Message {
	var id string
	if h.hasID {
		var ok bool
		if id, ok = normalID(h.id); !ok || h.badID {
			return Message{}
		}
	}
	switch {
	case h.badMethod:
		return Message{}
	case h.hasMethod && h.hasID:
		return Message{Kind: Request, ID: id, Method: text(h.method)}
	case h.hasMethod:
		return Message{Kind: Notification, Method: text(h.method)}
	case h.hasResult, h.hasError:
		return Message{Kind: Response, ID: id, IsError: h.failed}
	}
	return Message{}
}

// text is what a JSON string says; the string is valid JSON.
func text(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil { // Cannot be: the scanner has checked it.
		return ""
	}
	return s
}
