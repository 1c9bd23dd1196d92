package reap

import (
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// class says what a finding rests on.
type class string

// The classes, strongest proof first.
const (
	classRecord    class = "record"
	classMark      class = "mark"
	classCgroup    class = "cgroup"
	classContainer class = "container"
	classSevered   class = "severed"
	classDropped   class = "dropped"
	classSuspect   class = "suspect"
	classSurplus   class = "surplus"
)

func classes() []class {
	return []class{classRecord, classMark, classCgroup, classContainer, classSevered, classDropped, classSuspect, classSurplus}
}

// Finding is one tree of processes that should not be there, containers of a dead session, or a remnant without either.
type Finding struct {
	Class   class  `json:"class"`
	Session string `json:"session,omitempty"`
	Name    string `json:"name,omitempty"`
	// Top is the process to name first; zero when none is left.
	Top proc.ID `json:"top"`
	// Members are the processes that are ended together, Top among them.
	Members []proc.ID `json:"members"`
	// Containers are ended with the members.
	Containers []display.Container `json:"containers,omitempty"`
	// Count is the number of servers of a surplus.
	Count int `json:"count,omitempty"`
	// UID is the user whose it is.
	UID int `json:"uid"`
	// Command is the redacted command line.
	Command []string `json:"command"`
	Gateway gateway  `json:"gateway"`
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

	stored
	extras
	obstacles
	// ended says that nothing of the session is left but its record and an empty cgroup.
	ended bool
	// ending is what to end in an engine, nil for nothing. born is when the eldest container was created, or else when the session of
	// a record began.
	ending *ending
	born   time.Time
	// still asks once more, after the dwell, whether a dropped server is what it was taken for.
	still func() bool
}

// stored is what is on disk of a finding's session.
type stored struct {
	dir    *session.Directory // of the record, nil without one
	record *session.Record    // what it says
	leaf   string             // cgroup directory
	socket string             // of the session's proxy
}

// extras say of the processes around a finding which are its members.
type extras struct {
	keep   []string
	spared []proc.ID // kept processes of the session
	// inherited says that processes outside of the session have its mark: then the mark of a newborn says nothing.
	inherited bool
	// nothing says that nothing is kept of the session.
	nothing bool
	// stays says that something of the session is kept because it belongs to people: then its record and its cgroup stay.
	stays bool
	// fates name the first members.
	fates []session.Fate
}

// obstacles are why a finding may not be ended whole.
type obstacles struct {
	// unseen says why containers or a cgroup may be left that could not be listed.
	unseen string
	// boxed says that a member runs a container as a client of an engine: the container outlives its client.
	boxed bool
	// stuck names a process of the tree that could not be read: then nothing of the tree is ended.
	stuck string
}

// What became of a finding.
const (
	resultListed   = "listed"
	resultEnded    = "ended"
	resultRemoved  = "removed" // nothing but a record or cgroup was left
	resultSurvived = "survived"
	resultFailed   = "failed"
)

func results() []string {
	return []string{resultListed, resultEnded, resultRemoved, resultSurvived, resultFailed}
}

// onlyUser is the only user whose processes may be touched, -1 for any: a session of root with a cgroup may drop privileges.
func (f *Finding) onlyUser() int {
	if f.leaf != "" && f.UID == 0 {
		return -1
	}
	return f.UID
}

// over reports whether nothing of the finding is left.
func (f *Finding) over() bool { return f.Result == resultEnded || f.Result == resultRemoved }

// gateway is what is known of the process that wanted a server.
type gateway struct {
	proc.ID
	// State is "alive", "dead" or "unknown".
	State   string `json:"state"`
	Command string `json:"command,omitempty"`
}

// proven reports whether the finding may be ended; unwrapped says that the user asked for the severed and the
// dropped as well.
func (f Finding) proven(unwrapped bool) bool {
	switch f.Class {
	case classRecord, classMark, classCgroup, classContainer:
		return true
	case classSevered, classDropped:
		return unwrapped
	}
	return false
}

// describe fills in what is shown to people, and decides nothing.
func (f *Finding) describe(h *machine) {
	if f.Top.Zero() && !f.born.IsZero() {
		f.AgeSeconds = max(0, int64(h.Began.Sub(f.born).Seconds()))
		if f.dir == nil {
			// An engine does not say which user its containers belong to.
			return
		}
	}
	f.User = display.User(f.UID)
	if !f.Top.Zero() && h.Since > f.Top.Start {
		f.AgeSeconds = int64((h.Since - f.Top.Start) / proc.TicksPerSecond)
	}
	for _, m := range f.Members {
		f.MemoryBytes += h.Memory(m.PID)
	}
}
