package container

import "time"

// Kind says what an object of an engine is.
type Kind string

// The kinds.
const (
	Container Kind = "container"
	Pod       Kind = "pod" // podman's
	Network   Kind = "network"
	Volume    Kind = "volume" // labelled, but never removed: it may hold data
)

// The labels that the proxy adds.
const (
	LabelSession    = "mcp-tether.session"    // session id
	LabelRequest    = "mcp-tether.request"    // id of the one create request; no two objects share it but copies
	LabelGateway    = "mcp-tether.gateway"    // pid:start:boot:pidns
	LabelAnchor     = "mcp-tether.anchor"     // pid:start:boot:pidns; absent without anchor
	LabelSupervisor = "mcp-tether.supervisor" // pid:start:boot:pidns
	LabelMachine    = "mcp-tether.machine"    // hash of the machine id; absent where there is none
	LabelCreated    = "mcp-tether.created"    // when the create was asked for, RFC 3339 with nanoseconds
)

// Op says what a note is about.
type Op string

// The operations. Create and Start are noted before the engine is asked: if nothing follows, the outcome is not known.
const (
	OpCreate  Op = "create"  // an object will be asked for: Kind, Request, At
	OpCreated Op = "created" // it exists: Kind, Request, ID, Name if given
	OpRefused Op = "refused" // the engine said no, nothing exists: Request
	OpStart   Op = "start"   // a container that was there before, and is not running, will be started: ID, At
	OpStarted Op = "started" // it runs: ID, Started
	OpKept    Op = "kept"    // the start failed: ID
	OpRemoved Op = "removed" // the session's client removed an object itself: ID
)

// Note is one thing that a session did to its engine. Notes are what its record is made of.
type Note struct {
	Op      Op        `json:"op"`
	Kind    Kind      `json:"kind,omitempty"`
	Request string    `json:"request,omitempty"`
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name,omitempty"`
	Started string    `json:"started,omitempty"` // State.StartedAt, as the engine prints it
	At      time.Time `json:"at,omitzero"`
}
