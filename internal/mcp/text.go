package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Span is where in a text a value is; To is 0 if there is none.
type Span struct{ From, To int }

// Of is the value in its text.
func (s Span) Of(text []byte) []byte { return text[s.From:s.To] }

// members goes through the members of an object. Inside values it follows brackets and quotes alone: parsers differ in what
// they take there (Python writes and reads NaN).
type members struct {
	text       []byte
	at         int
	key, value Span
	// begun says that a member was found. closed says that the object has ended with its bracket, cut that the text has ended
	// before.
	begun, closed, cut bool
}

// membersOf begins with the object at a place; a value that is no object has no members.
func membersOf(text []byte, object Span) members {
	if object.To == 0 || text[object.From] != '{' {
		return members{}
	}
	return members{text: text[:object.To], at: object.From + 1}
}

// next finds the next member. What is no JSON ends the object.
func (o *members) next() bool {
	if o.at = o.skip(o.at); o.begun && o.is(',') {
		o.at = o.skip(o.at + 1)
	} else if o.is('}') {
		o.at++
		o.closed = true
		return false
	} else if o.begun {
		o.cut = o.at >= len(o.text)
		return false
	}
	if !o.is('"') {
		o.cut = o.at >= len(o.text)
		return false
	}
	o.key = Span{o.at, o.endOfString(o.at)}
	colon := o.skip(o.key.To)
	value := o.skip(colon + 1)
	if value >= len(o.text) {
		o.cut = true
		return false
	}
	if o.text[colon] != ':' || strings.IndexByte(",:]}", o.text[value]) >= 0 {
		return false
	}
	o.value = Span{value, o.end(value)}
	o.at, o.begun = o.value.To, true
	return true
}

func (o *members) is(c byte) bool { return o.at < len(o.text) && o.text[o.at] == c }

func (o *members) skip(i int) int {
	for i < len(o.text) && (o.text[i] == ' ' || o.text[i] == '\t' || o.text[i] == '\r' || o.text[i] == '\n') {
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
	n := bytes.IndexAny(o.text[i:], ",]} \t\r\n")
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

// named reports whether the member has a name.
func (o *members) named(name string) bool {
	key := o.key.Of(o.text)
	if bytes.IndexByte(key, '\\') < 0 && len(key) > 1 {
		return string(key[1:len(key)-1]) == name
	}
	return decoded(key) == name
}

// decoded is what a JSON string says, "" if it says nothing that can be read.
func decoded(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && len(raw) > 1 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// At finds the value at a path of names; of several with one name the last, as in JavaScript, Python and Go. The span is empty
// if there is none. The case of names counts.
func At(text []byte, path ...string) Span { return within(text, Span{0, len(text)}, path...) }

// ValueAt gives the value at a path of names, or nil if there is none.
func ValueAt(text []byte, path ...string) json.RawMessage {
	value := At(text, path...)
	if value.To == 0 {
		return nil
	}
	return value.Of(text)
}

// within finds the value at a path of names in an object; of several with one name the last.
func within(text []byte, object Span, path ...string) Span {
	for _, name := range path {
		var found Span
		for o := membersOf(text, object); o.next(); {
			if o.named(name) {
				found = o.value
			}
		}
		object = found
	}
	return object
}

// Pick finds members of an object by name, in one go; of several with one name the last. What is not there stays as it is.
func Pick(text []byte, object Span, names []string, found []Span) {
	for o := membersOf(text, object); o.next(); {
		for i, name := range names {
			if o.named(name) {
				found[i] = o.value
			}
		}
	}
}

// TextOf is the string that a value says, "" if it is none.
func TextOf(text []byte, value Span) string {
	if value.To == 0 || text[value.From] != '"' {
		return ""
	}
	return decoded(value.Of(text))
}

// Edit puts another text in a place.
type Edit struct {
	Span
	With string
}

// Splice makes a line of a message with its newline, edited at some places. Empty spans are left out.
func Splice(text []byte, edits ...Edit) []byte {
	for i := range edits { // They are few. slices.SortFunc would bring a sort for this type, of seven kilobytes.
		for j := i; j > 0 && edits[j].From < edits[j-1].From; j-- {
			edits[j], edits[j-1] = edits[j-1], edits[j]
		}
	}
	size := len(text) + 1
	for _, e := range edits {
		size += len(e.With)
	}
	line, done := make([]byte, 0, size), 0
	for _, e := range edits {
		if e.To > 0 {
			line = append(append(line, text[done:e.From]...), e.With...)
			done = e.To
		}
	}
	return append(append(line, text[done:]...), '\n')
}
