package supervise

import (
	"time"

	"github.com/rs/zerolog"

	"mcp-tether/cgroup"
	"mcp-tether/internal/display"
	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/internal/waiting"
)

// Cgroup says what to do about the session's cgroup.
type Cgroup string

// The values of --cgroup.
const (
	CgroupAuto    Cgroup = "auto"    // use one where the hierarchy can be written
	CgroupOff     Cgroup = "off"     // never
	CgroupRequire Cgroup = "require" // fail where it cannot be had
)

// Containment says whether the session has a cgroup, which limits that has, and what to do where it cannot have them.
type Containment struct {
	Cgroup Cgroup
	// Limits are those that the user wants; none as a rule.
	Limits []cgroup.Limit
	// Require refuses to start a server without them.
	Require bool
}

// Containers says which containers of a session end with it.
type Containers string

// The values of --containers.
const (
	ContainersAuto Containers = "auto" // all, where an engine is in sight
	ContainersAll  Containers = "all"  // all, and a warning where no engine is in sight
	ContainersOff  Containers = "off"  // none: no proxy
)

// After are the sessions whose end a session waits for before it starts: that of the same gateway and Key, if it is ending; with a
// Key, an earlier one of the shared server; and an earlier one behind the same front.
type After struct {
	session.Relations
	// Unended says that the earlier one behind the front may still be ending. Else it is not looked for: that reads all records.
	Unended bool
}

// Options are what the user may choose for a session.
type Options struct {
	// Command is the server's command line, never empty.
	Command []string
	// Name labels the session for people.
	Name string
	// Grace are the limits of a teardown.
	Grace teardown.Grace
	// Keep are shell patterns of descendants to leave alone. KeepNothing ends all, whatever asks to be kept.
	Keep        []string
	KeepNothing bool
	Containment
	// Containers says which containers end with the session. Engine is the engine's URL instead of the one that the
	// docker CLI would use.
	Containers Containers
	Engine     string
	After
	// HasDead reports cheaply whether this user has dead sessions to sweep. It is called shortly after the server's start
	// and may be nil. A separate process then ends them, so that a machine without cron is cleaned at the next start.
	HasDead func() bool `json:"-"`
	// History says that the session is written into the history of its user when it is over.
	History bool
	Log     display.Options
}

// Defaults are the options without any flag.
func Defaults() Options {
	return Options{
		Grace:       teardown.Grace{EOF: 12 * time.Second, Term: 10 * time.Second, Gone: 4 * time.Second, Kill: 5 * time.Second},
		Containment: Containment{Cgroup: CgroupAuto}, Containers: ContainersAuto, Log: display.Options{Level: zerolog.WarnLevel},
	}
}

// removalLimit is how long an engine may take, beside the grace period of the containers. It needs some time also where
// processes get none.
func (o *Options) removalLimit() time.Duration { return max(o.Grace.Kill, time.Second) }

// longestRemoval is the longest time that the removal of a session's containers may take.
func (o *Options) longestRemoval() time.Duration {
	return keeper.LongestRemoval(o.removalLimit())
}

// LongestEnd is the longest time that the end of a session may take, whatever it has.
func (o *Options) LongestEnd() time.Duration {
	end := o.Grace.EOF + max(o.Grace.Term, o.Grace.Gone) + o.Grace.Kill
	if o.Containers != ContainersOff {
		end += o.longestRemoval()
	}
	return end
}

// Exit codes of our own, as env(1) and timeout(1) have them.
const (
	ExitFailure       = waiting.ExitFailure // mcp-tether itself failed, or was called wrongly
	ExitNotExecutable = 126                 // the command was found but cannot be executed
	ExitNotFound      = 127                 // the command was not found
)
