package engine

import "time"

// Op is what a note says about an object.
type Op string

// The operations. Create and start are noted before the engine is asked: if nothing follows, the outcome is unknown.
const (
	OpCreate  Op = "create"  // an object will be asked for: Kind, Request, At; Names for what takes no labels
	OpCreated Op = "created" // it exists: Kind, Request, ID, Name if given
	OpRefused Op = "refused" // the engine refused, and nothing exists: Request
	OpStart   Op = "start"   // a container that existed before will be started, or restarted: ID, At
	OpStarted Op = "started" // it is running: ID, Started; Paused, if it was paused and the session resumed it
	OpKept    Op = "kept"    // the start failed: ID
	OpRemoved Op = "removed" // a client of the session removed an object: ID
	OpCarry   Op = "carry"   // a container's anonymous volume will be given to another container by name: ID, Started
	OpConnect Op = "connect" // another's container will be connected to a network of the session: ID, Container
	OpParted  Op = "parted"  // it is not connected: that failed, or a client of the session has undone it: ID, Container
)

// Note is one thing that a session did to its engine. A session's journal consists of notes.
type Note struct {
	Op        Op     `json:"op"`
	Kind      Kind   `json:"kind,omitempty"`
	Request   string `json:"request,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Started   string `json:"started,omitempty"`   // State.StartedAt, or CreatedAt of a volume, as the engine prints it
	Container string `json:"container,omitempty"` // an id
	// Names are the names in a manifest. Some of them are names of pods.
	Names []string `json:"names,omitempty"`
	// Restarts is how often the container's restart policy had started it by then.
	Restarts int       `json:"restarts,omitempty"`
	Paused   bool      `json:"paused,omitempty"`
	At       time.Time `json:"at,omitzero"`
}
