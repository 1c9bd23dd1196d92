package reap

import (
	"time"

	"mcp-tether/proc"
)

// Class says what a finding rests on.
type Class string

// The classes, strongest proof first.
const (
	Record    Class = "record"
	Mark      Class = "mark"
	Cgroup    Class = "cgroup"
	Container Class = "container"
	Severed   Class = "severed"
	Suspect   Class = "suspect"
	Surplus   Class = "surplus"
)

func classes() []Class { return []Class{Record, Mark, Cgroup, Container, Severed, Suspect, Surplus} }

// Finding is one tree of processes that should not be there, containers of a dead session, or a remnant without either.
type Finding struct {
	Class   Class  `json:"class"`
	Session string `json:"session,omitempty"`
	Name    string `json:"name,omitempty"`
	// Top is the process to name first; zero when none is left.
	Top proc.ID `json:"top"`
	// Members are the processes that are ended together, Top among them.
	Members []proc.ID `json:"members"`
	// Containers are ended with the members.
	Containers []FoundContainer `json:"containers,omitempty"`
	// Count is the number of servers of a surplus, or of containers that are too many.
	Count int `json:"count,omitempty"`
	// UID is the user whose processes may be touched.
	UID int `json:"uid"`
	// Command is the redacted command line.
	Command []string `json:"command"`
	Gateway Gateway  `json:"gateway"`
	// Evidence says in words what proves the class.
	Evidence []string `json:"evidence"`
	// Advice says what to do about what is only reported.
	Advice string `json:"advice,omitempty"`

	// Shown to people; filled after the rules.
	AgeSeconds  int64  `json:"age_seconds"`
	MemoryBytes uint64 `json:"memory_bytes"`
	User        string `json:"user,omitempty"`

	// Result is what became of it: "listed", "ended", "survived", "removed" or "failed".
	Result    string   `json:"result"`
	Survivors []string `json:"survivors,omitempty"`

	record string // directory of the record
	leaf   string // cgroup directory
	socket string // of the session's proxy
	keep   []string
	// ending is what to end in an engine, nil for nothing; unseen says why containers may be left that nobody could look
	// for.
	ending *ending
	unseen string
	// born is when the eldest container was created, where there are no processes.
	born time.Time
	// anyUser says that members of any user are touched: the session was root's.
	anyUser bool
}

// Gateway is what is known of the one who started a server.
type Gateway struct {
	proc.ID
	// State is "alive", "dead" or "unknown".
	State   string `json:"state"`
	Command string `json:"command,omitempty"`
}

// Proven reports whether the class may be ended; unwrapped says that the user asked for the severed as well.
func (f Finding) Proven(unwrapped bool) bool {
	switch f.Class {
	case Record, Mark, Cgroup, Container:
		return true
	case Severed:
		return unwrapped
	}
	return false
}
