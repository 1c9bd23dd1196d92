package reap

import (
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
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
	// Top is the process to name first; zero when none is left.
	Top proc.ID `json:"top"`
	// Members are the processes that are ended together, Top among them.
	Members []proc.ID `json:"members"`
	// Containers are ended with the members.
	Containers []display.Container `json:"containers,omitempty"`
	// UID is the user whose it is.
	UID int `json:"uid"`
	// Command is the redacted command line.
	Command []string `json:"command"`
	Gateway gateway  `json:"gateway"`
	// Evidence says in words what proves the class.
	Evidence []string `json:"evidence"`
	shown
	outcome
	remains
}

// shown is what the report says besides. Nothing is decided by it.
type shown struct {
	Name string `json:"name,omitempty"`
	// Count is the number of servers of a surplus.
	Count int `json:"count,omitempty"`
	// Advice says what to do about what is only reported.
	Advice      string `json:"advice,omitempty"`
	AgeSeconds  int64  `json:"age_seconds"`
	MemoryBytes uint64 `json:"memory_bytes"`
	User        string `json:"user,omitempty"`
}

// outcome is what became of a finding.
type outcome struct {
	Result    string   `json:"result"`
	Survivors []string `json:"survivors,omitempty"`
}

// The results.
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

// over reports whether nothing of the finding is left.
func (o *outcome) over() bool { return o.Result == resultEnded || o.Result == resultRemoved }

// remains is what must be known of a finding to end it.
type remains struct {
	// group are its processes, for package teardown. The leaf is opened when they are ended.
	group teardown.Group
	// empty says that no process is left to end.
	empty bool
	// stays says that something of the session is kept because it belongs to people: then its record and its cgroup stay.
	stays bool
	// stored is the session's record, nil without one, and leaf the directory of its cgroup.
	stored *storedSession
	leaf   string
	// engine is the one that has containers to end, or may still create them for a session that was killed; nil for none.
	engine *knownEngine
	// born is when the eldest container was created, or else when the session of a record began.
	born time.Time
	// fates name the first members, for the history.
	fates []session.Fate
	// still asks once more, after the dwell, whether a dropped server is what it was taken for.
	still func() bool

	// unseen says why containers or a cgroup may be left that could not be listed.
	unseen string
	// runsContainer says that a member runs a container as a client of an engine: the container outlives its client.
	runsContainer bool
	// stuck names a process of the tree that could not be read: then nothing of the tree is ended.
	stuck string
}

// onlyUser is the only user whose processes may be touched, -1 for any: a session of root with a cgroup may drop privileges.
func (f *Finding) onlyUser() int {
	if f.leaf != "" && f.UID == 0 {
		return -1
	}
	return f.UID
}

// doubt makes a suspect of a finding: it is only reported.
func (f *Finding) doubt(advice string, why ...string) {
	f.Class, f.Advice = classSuspect, advice
	f.Evidence = append(f.Evidence, why...)
}

// What to do about a suspect.
const (
	adviceLook    = "not proven: look at it, and end it by hand if no process needs it"
	adviceGateway = "its gateway is not known to be dead: end it by hand if you know better"
	adviceKeep    = "it may be meant to stay: end it by hand if no process needs it"
	adviceParent  = "a living process has started it and may look after it: end it by hand if you know better"
)

// keepUnclear is why nothing of a session with --keep is proven by its mark: what it has kept has that too.
const keepUnclear = "its session may keep processes (--keep), and it is not known which"

// gateway is what is known of the process that wanted a server.
type gateway struct {
	proc.ID
	// State is "alive", "dead" or "unknown".
	State   string `json:"state"`
	Command string `json:"command,omitempty"`
}

// proven reports whether the finding may be ended; unwrapped says that the user asked for the severed and the
// dropped as well.
func (f *Finding) proven(unwrapped bool) bool {
	switch f.Class {
	case classRecord, classMark, classCgroup, classContainer:
		return true
	case classSevered, classDropped:
		return unwrapped
	}
	return false
}

// describe fills in what is shown to people.
func (f *Finding) describe(h *machine) {
	if f.Top.Zero() && !f.born.IsZero() {
		f.AgeSeconds = max(0, int64(h.Began.Sub(f.born).Seconds()))
		if f.stored == nil {
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
