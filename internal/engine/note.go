package engine

import "time"

// Op is what a note says about an object.
type Op string

// The operations. A create is noted before the engine is asked: if nothing follows, the outcome is unknown.
const (
	OpCreate  Op = "create"  // an object will be asked for: Kind, Request, At
	OpCreated Op = "created" // it exists: Kind, Request, ID, Name if given
	OpRefused Op = "refused" // the engine refused, and nothing exists: Request
	OpRemoved Op = "removed" // a client of the session removed an object: ID
)

// Note is one thing that a session did to its engine. A session's journal consists of notes.
type Note struct {
	Op      Op        `json:"op"`
	Kind    Kind      `json:"kind,omitempty"`
	Request string    `json:"request,omitempty"`
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name,omitempty"`
	At      time.Time `json:"at,omitzero"`
}
