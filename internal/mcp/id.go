package mcp

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// exactFloat is the first integer past which a float64 skips integers. JavaScript's numbers are float64.
const exactFloat = 1 << 53

// alwaysEscaped are the characters that Quote always writes with an escape, although JSON asks for none.
const alwaysEscaped = "\u2028\u2029"

// NormalID gives the one spelling for every way to write an id, so that an answer is found however its sender writes
// ids. JSON.stringify writes 1.0 as 1, and Python's json writes "é" with an escape. A word such as true is an id like
// any other, although MCP has none of these. ok is false if raw cannot be an id.
func NormalID(raw []byte) (id string, ok bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch c := raw[0]; {
	case c == '{', c == '[':
		return "", false
	case c == '"':
		return normalString(raw), true
	case c == '-', '0' <= c && c <= '9':
		return normalNumber(raw), true
	}
	return string(raw), true
}

// normalString leaves a string as it is if it cannot be decoded without loss (half of a surrogate pair, invalid UTF-8).
// Two such ids must not become equal, and a reply must carry what was sent.
func normalString(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && !bytes.ContainsAny(raw, alwaysEscaped) {
		return string(raw)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil || !utf8.Valid(raw) || bytes.ContainsRune([]byte(text), utf8.RuneError) {
		return string(raw)
	}
	return string(Quote(text))
}

// normalNumber writes whole numbers without fraction and exponent. Those that a float64 cannot tell apart stay as they
// are.
func normalNumber(raw []byte) string {
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil || math.Abs(f) >= exactFloat:
		return string(raw)
	case f == math.Trunc(f):
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// Quote writes text as JSON with the fewest escapes, so that a string without escapes stays as it is, if it has nothing
// that is always escaped.
func Quote(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil { // Cannot be: every string can be written.
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
