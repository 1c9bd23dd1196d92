package mux

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-tether/internal/mcp"
)

// Codes of errors (JSON-RPC 2.0, section 5.1).
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeParams   = -32602
	codeInternal = -32603
)

// span is where in a text a value is; to is 0 if there is none.
type span struct{ from, to int }

func (s span) of(text []byte) []byte { return text[s.from:s.to] }

// members goes through the members of an object in a message whose brackets and quotes match. Inside values it follows
// brackets and quotes alone.
type members struct {
	text       []byte
	at         int
	key, value span
}

// membersOf begins with the object at a place; a value that is no object has no members.
func membersOf(text []byte, object span) members {
	if object.to == 0 || text[object.from] != '{' {
		return members{}
	}
	return members{text: text[:object.to], at: object.from + 1}
}

// next finds the next member. What is no JSON ends the object.
func (o *members) next() bool {
	key := o.skip(o.at, " \t\r,")
	if key >= len(o.text) || o.text[key] != '"' {
		return false
	}
	end := o.end(key)
	value := o.skip(end, " \t\r:")
	if value >= len(o.text) {
		return false
	}
	o.key, o.value = span{key, end}, span{value, o.end(value)}
	o.at = o.value.to
	return o.at > value
}

func (o *members) skip(i int, these string) int {
	for i < len(o.text) && strings.IndexByte(these, o.text[i]) >= 0 {
		i++
	}
	return i
}

// end is where the value that begins at i ends.
func (o *members) end(i int) int {
	switch o.text[i] {
	case '"':
		return o.endOfString(i)
	case '{', '[':
		return o.endOfNested(i)
	}
	n := bytes.IndexAny(o.text[i:], ",]} \t\r")
	if n < 0 {
		return len(o.text)
	}
	return i + n
}

func (o *members) endOfString(i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(o.text[i:], '"')
		if n < 0 {
			return len(o.text)
		}
		i += n
		if !escaped(o.text[:i]) {
			return i + 1
		}
	}
}

// escaped reports whether a backslash at the end of the text escapes what follows.
func escaped(text []byte) bool {
	n := len(text)
	for n > 0 && text[n-1] == '\\' {
		n--
	}
	return (len(text)-n)%2 == 1
}

func (o *members) endOfNested(i int) int {
	depth := 0
	for i < len(o.text) {
		switch o.text[i] {
		case '"':
			i = o.endOfString(i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(o.text)
}

// name is the key of the member, decoded.
func (o *members) name() string {
	raw := o.key.of(o.text)
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var name string
	_ = json.Unmarshal(raw, &name)
	return name
}

// pick finds members of an object by name; of several with one name the last. A name that is not there has an empty span.
func pick(text []byte, object span, names []string, found []span) {
	for o := membersOf(text, object); o.next(); {
		if i := slices.Index(names, o.name()); i >= 0 {
			found[i] = o.value
		}
	}
}

// at finds the value at a path of names; of several with one name the last. The span is empty if there is none.
func at(text []byte, path ...string) span {
	value := span{0, len(text)}
	for _, name := range path {
		value = within(text, value, name)
	}
	return value
}

// within finds a member of an object; of several with one name the last. The span is empty if there is none.
func within(text []byte, object span, name string) span {
	var found span
	for o := membersOf(text, object); o.next(); {
		if o.name() == name {
			found = o.value
		}
	}
	return found
}

// eachElement calls take for each element of an array. What is no array has none.
func eachElement(text []byte, array span, take func(element span)) {
	if array.to == 0 || text[array.from] != '[' {
		return
	}
	o := members{text: text[:array.to]}
	for i := o.skip(array.from+1, " \t\r,"); i < array.to && text[i] != ']'; i = o.skip(i, " \t\r,") {
		element := span{i, o.end(i)}
		if element.to <= i {
			return
		}
		take(element)
		i = element.to
	}
}

// textOf is the string that a value says, "" if it is none.
func textOf(text []byte, value span) string {
	var s string
	if value.to == 0 || text[value.from] != '"' || json.Unmarshal(value.of(text), &s) != nil {
		return ""
	}
	return s
}

// idOf is an id or a token in one spelling, "" if the value cannot be one.
func idOf(text []byte, value span) string {
	if value.to == 0 {
		return ""
	}
	id, _ := mcp.NormalID(value.of(text))
	return id
}

// numberOf is the number of ours that an id or a token repeats; 0, which is none of them, if it repeats none. Some
// programs repeat a number as a string, which the SDKs accept.
func numberOf(id string) int64 {
	n, _ := strconv.ParseInt(strings.Trim(id, `"`), 10, 64)
	return n
}

// edit puts another text in a place.
type edit struct {
	span
	with string
}

// splice makes a line of a message with its newline, edited at places that come in order. Empty spans are left out.
func splice(text []byte, edits ...edit) []byte {
	size := len(text) + 1
	for _, e := range edits {
		size += len(e.with)
	}
	line, done := make([]byte, 0, size), 0
	for _, e := range edits {
		if e.to > 0 {
			line = append(append(line, text[done:e.from]...), e.with...)
			done = e.to
		}
	}
	return append(append(line, text[done:]...), '\n')
}

// idEdit replaces the id of a message.
func idEdit(msg mcp.Message, with string) edit {
	from, to := msg.IDSpan()
	return edit{span{from, to}, with}
}

// inOrder sorts two edits by place.
func inOrder(a, b edit) (first, second edit) {
	if b.to > 0 && b.from < a.from {
		return b, a
	}
	return a, b
}

func errorLine(id string, code int, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, mcp.Quote(message))
}

func resultLine(id string) []byte { return mcp.PingReply(id) }
