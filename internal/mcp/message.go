package mcp

import "slices"

// Kind says what a message is for.
type Kind uint8

const (
	// Opaque is a line or element that no receiver takes for a message: no JSON object, or one that is none of the
	// other kinds.
	Opaque Kind = iota
	// Unclear may be a message to its receiver, but cannot be read here.
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

// Message is one JSON-RPC message; the elements of a batch come one by one.
type Message struct {
	// ID is the id as JSON, in one spelling for all equal ids (1, 1.0 and 1e0; "a" and "\u0061"). Empty if there is none.
	ID string
	// Method is decoded. Empty for a response.
	Method string
	Kind   Kind
	// IsError says that the response has an error that is not null.
	IsError bool
	// Line is false for an element of a batch.
	Line bool
	// Size is in bytes: of the line without its newline (a carriage return before it counts), or of the element.
	Size int64
	// Raw are these bytes, or nil if the whole line had more than Scanner.Keep. Valid only during emit.
	Raw []byte
	// idFrom and idTo are where in Raw the id is; idTo is 0 if there is none.
	idFrom, idTo int64
}

// answers reports whether the message ends the request that has its id.
func (m Message) answers() bool { return m.Kind == Response && m.ID != "" && m.ID != IDNull }

// asks reports whether the message is a request that can be answered. A request with the id null is unclear: not every
// server answers it, and its answer looks like the answer to an unreadable line.
func (m Message) asks() bool { return m.Kind == Request && m.ID != IDNull }

// unclear reports whether the message may be a request whose end cannot be recognised.
func (m Message) unclear() bool { return m.Kind == Unclear || m.Kind == Request && m.ID == IDNull }

// IDSpan is where in Raw the id is; to is 0 if there is none.
func (m Message) IDSpan() (from, to int) { return int(m.idFrom), int(m.idTo) }

// withID gives the message with another id, which is JSON.
func (m Message) withID(id string) []byte {
	if m.idTo == 0 || m.Raw == nil {
		return nil
	}
	return slices.Concat(m.Raw[:m.idFrom], []byte(id), m.Raw[m.idTo:])
}
