package mcp

import (
	"bytes"
	"encoding/json"
)

// NormalID gives one spelling for the ways to write an id, so that an answer is found however its sender writes strings: Python's
// json writes "é" with an escape. A word such as true is an id like any other, although MCP has none of these. ok is false if raw
// cannot be an id.
func NormalID(raw []byte) (id string, ok bool) {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
		return "", false
	}
	var text string
	if bytes.IndexByte(raw, '\\') < 0 || json.Unmarshal(raw, &text) != nil {
		return string(raw), true
	}
	return string(Quote(text)), true
}

// Quote writes text as JSON with the fewest escapes, so that a string without escapes stays as it is.
func Quote(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil { // Cannot be: every string can be written.
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
