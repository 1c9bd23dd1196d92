package mcp

import "bytes"

// Kind says what a message is for.
type Kind uint8

const (
	// Opaque is a line that no receiver takes for a message: no JSON object, or one that is none of the other kinds.
	Opaque Kind = iota
	// Unclear may be a message to its receiver, or several (2025-03-26, basic/index, "Batching"), but cannot be read here.
	Unclear
	// Request has a method and an id. It is to be answered.
	Request
	// Notification has a method and no id.
	Notification
	// Response has a result or an error and no method.
	Response
)

// IDNull is the ID of a message whose id is null. MCP forbids it in requests; an error whose request could not be read
// has it (JSON-RPC 2.0, section 5).
const IDNull = "null"

// DefaultMax is how many bytes a message may have, without its newline.
const DefaultMax = 64 << 20

// Message is one line of JSON-RPC.
type Message struct {
	// ID is the id as JSON, in one spelling for all equal ids ("a" and "\u0061"). Empty if there is none.
	ID string
	// Method is decoded. Empty for a response.
	Method string
	Kind   Kind
	// IsError says that the response has an error that is not null.
	IsError bool
	// Line is the line as it came, with its newline if it has one. Raw is the same from its first bracket on, without the newline.
	Line, Raw []byte
	// IDSpan and the rest are where in Raw these members are.
	IDSpan, Params, Result, Error Span
}

// byteOrderMark may stand before a message. Some receivers pass over it.
const byteOrderMark = "\ufeff"

// Parse reads a line, with or without its newline. Of several members with one name the last counts, as in JavaScript, Python
// and Go. The case of names counts. The message has parts of the line, so it is valid as long as that is.
func Parse(line []byte) Message {
	m := Message{Line: line, Raw: bytes.TrimLeft(bytes.TrimSuffix(line, []byte("\n")), " \t\r")}
	switch {
	case len(m.Raw) == 0:
	case m.Raw[0] == '{':
		m.readObject()
	case m.Raw[0] == '[':
		if next := bytes.TrimLeft(m.Raw[1:], " \t\r"); len(next) > 0 && next[0] == '{' { // Not "[INFO] listening".
			m.Kind = Unclear
		}
	case bytes.HasPrefix(m.Raw, []byte(byteOrderMark)):
		if behind := Parse(m.Raw[len(byteOrderMark):]); behind.Kind != Opaque {
			m.Kind = Unclear
		}
	}
	return m
}

// Within finds a value at a path of names in a value of the message.
func (m *Message) Within(value Span, path ...string) Span { return within(m.Raw, value, path...) }

// Text is the string at a path of names in a value of the message, "" if there is none.
func (m *Message) Text(value Span, path ...string) string {
	return TextOf(m.Raw, m.Within(value, path...))
}

// IDAt is a value of the message as an id or a token, in one spelling; "" if it cannot be one.
func (m *Message) IDAt(value Span) string {
	id, _ := NormalID(value.Of(m.Raw))
	return id
}

// readObject finds the members of a message. It goes through each byte once.
func (m *Message) readObject() {
	o := membersOf(m.Raw, Span{0, len(m.Raw)})
	var method Span
	for o.next() {
		switch {
		case o.named("id"):
			m.IDSpan = o.value
		case o.named("method"):
			method = o.value
		case o.named("params"):
			m.Params = o.value
		case o.named("result"):
			m.Result = o.value
		case o.named("error"):
			m.Error = o.value
		}
	}
	if !o.closed || o.skip(o.at) < len(m.Raw) {
		m.Kind = o.oddity()
		return
	}
	idReads := true
	if m.IDSpan.To > 0 {
		m.ID, idReads = NormalID(m.IDSpan.Of(m.Raw))
	}
	switch {
	case !idReads, method.To > 0 && m.Raw[method.From] != '"':
		m.ID, m.Kind = "", Unclear
		return
	case method.To > 0:
		m.Method = TextOf(m.Raw, method)
		if m.Kind = Notification; m.IDSpan.To > 0 {
			m.Kind = Request
		}
	case m.Result.To > 0, m.Error.To > 0:
		m.Kind, m.IsError = Response, m.Error.To > 0 && m.Raw[m.Error.From] != 'n'
	}
}

// oddity is the kind of a line that begins as an object and is none. No parser takes a line that ends in the middle of a value for
// a message, nor a text in brackets such as "{debug} ready".
func (o *members) oddity() Kind {
	if o.cut || !o.begun && !o.closed && !o.is('"') && !o.is('\'') {
		return Opaque
	}
	return Unclear
}

// IsStray reports whether no receiver takes a line for a message.
func IsStray(line []byte) bool { m := Parse(line); return m.Kind == Opaque }
