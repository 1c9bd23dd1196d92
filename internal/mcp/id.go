package mcp

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// exactFloat is the first integer past which a float64 skips integers. JavaScript's numbers are float64.
const exactFloat = 1 << 53

// NormalID gives one spelling for the ways to write an id, so that an answer is found however its sender writes ids.
// JSON.stringify writes 1.0 as 1, and Python's json writes "é" with an escape. A word such as true is an id like any other,
// although MCP has none of these. ok is false if raw cannot be an id.
func NormalID(raw []byte) (id string, ok bool) {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
		return "", false
	}
	if raw[0] == '"' {
		if bytes.IndexByte(raw, '\\') < 0 {
			return string(raw), true
		}
		var text string
		if json.Unmarshal(raw, &text) == nil && !bytes.ContainsRune([]byte(text), '\ufffd') { // Half of a surrogate pair.
			return string(Quote(text)), true
		}
	} else if bytes.ContainsAny(raw, ".eE") {
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < exactFloat {
			return strconv.FormatInt(int64(f), 10), true
		}
	}
	return string(raw), true
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
