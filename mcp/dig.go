package mcp

import (
	"bytes"
	"encoding/json"
)

// dig gives the value at a path of keys, or nil if there is none. Keys are matched by case, unlike those of structs.
func dig(raw []byte, path ...string) json.RawMessage {
	for _, key := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return nil
		}
		raw = members[key]
	}
	return raw
}

// digText gives the string at a path, or "" if there is none.
func digText(raw []byte, path ...string) string {
	var s string
	if found := dig(raw, path...); found == nil || json.Unmarshal(found, &s) != nil {
		return ""
	}
	return s
}

// isObject reports whether a value that dig found is an object.
func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// mentions reports whether a word may be in the keys or strings of a message; cheap, so that most messages need not be
// decoded. Escapes could hide it.
func mentions(raw []byte, word string) bool {
	return bytes.Contains(raw, []byte(word)) || bytes.Contains(raw, []byte(`\u`))
}
