package mcp

import (
	"bytes"
	"encoding/json"
)

// ValueAt gives the value at a path of keys, or nil if there is none. The case of keys counts, unlike in structs.
func ValueAt(raw []byte, path ...string) json.RawMessage {
	for _, key := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return nil
		}
		raw = members[key]
	}
	return raw
}

// textAt gives the string at a path, or "" if there is none.
func textAt(raw []byte, path ...string) string {
	var s string
	if found := ValueAt(raw, path...); found == nil || json.Unmarshal(found, &s) != nil {
		return ""
	}
	return s
}

// isObject reports whether a value of ValueAt is an object.
func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// mentions reports whether a word may be in the keys or strings of a message. It is cheap and spares most messages the
// decoding. A message with an escape may mention anything.
func mentions(raw []byte, word string) bool {
	return bytes.Contains(raw, []byte(word)) || bytes.Contains(raw, []byte(`\u`))
}
