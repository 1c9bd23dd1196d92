package supervise

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"mcp-tether/internal/teardown"
)

// Cgroup says what to do about the session's cgroup.
type Cgroup string

// The values of --cgroup.
const (
	CgroupAuto    Cgroup = "auto"    // use one where the hierarchy can be written
	CgroupOff     Cgroup = "off"     // never
	CgroupRequire Cgroup = "require" // fail where it cannot be had
)

// Containers says which containers of a session end with it.
type Containers string

// The values of --containers.
const (
	ContainersAuto     Containers = "auto"     // all, where an engine is in sight
	ContainersAll      Containers = "all"      // all, and a warning where no engine is in sight
	ContainersAttached Containers = "attached" // only those that run in the foreground of their client
	ContainersOff      Containers = "off"      // none: no proxy
)

// OnCrash says what becomes of a session whose server ends by itself.
type OnCrash string

// The values of --on-crash.
const (
	OnCrashEnd     OnCrash = "end"     // it ends
	OnCrashRestart OnCrash = "restart" // the next message starts the server again
)

// Options are what the user may choose for a session.
type Options struct {
	// Command is the server's command line, never empty.
	Command []string
	// Name labels the session for people.
	Name string
	// EOFGrace, TermGrace and KillTimeout are the limits of a teardown, each 0 or more.
	EOFGrace, TermGrace, KillTimeout time.Duration
	// Keep are shell patterns of descendants to leave alone.
	Keep   []string
	Cgroup Cgroup
	// Containers says which containers end with the session. Engine is the engine's URL instead of the one that the
	// docker CLI would use. ContainerGrace is the time from a container's stop signal to its removal, 0 or more.
	Containers     Containers
	Engine         string
	ContainerGrace time.Duration
	// Hibernate is how long a server must be idle, with nothing pending, before it falls asleep; 0 never. WakeTimeout bounds
	// the handshake with a woken server, MaxMessage the length of a message on the relay, in bytes.
	Hibernate, WakeTimeout time.Duration
	MaxMessage             int64
	// OnCrash says what becomes of a session whose server ends by itself.
	OnCrash OnCrash
	// Key makes the session wait for an ending session of the same gateway with the same key; with "" it does not wait.
	Key string
	// Share is the place of the shared server whose host this is, else "". The session waits for an earlier one of that
	// place.
	Share string
	// HasDead reports cheaply whether this user has dead sessions on record. It is called shortly after the server's start
	// and may be nil. A separate process then ends them, so that a machine without cron is cleaned at the next start.
	HasDead func() bool
	Log     LogOptions
}

// Defaults are the options without any flag.
func Defaults() Options {
	return Options{
		EOFGrace: 5 * time.Second, TermGrace: 1500 * time.Millisecond, KillTimeout: 5 * time.Second,
		ContainerGrace: 400 * time.Millisecond, WakeTimeout: 30 * time.Second,
		Cgroup: CgroupAuto, Containers: ContainersAuto, OnCrash: OnCrashEnd, Log: LogOptions{Level: zerolog.WarnLevel},
	}
}

// LogOptions say where and what to log.
type LogOptions struct {
	Level zerolog.Level
	// JSON selects one JSON object a line instead of text.
	JSON bool
	// File is appended to; empty means standard error.
	File string
}

// An engine that is busy and answers gets up to maxRounds rounds. One that does not answer within answerTime is not waited
// for any longer.
const (
	maxRounds  = 6
	answerTime = time.Second
)

// removalLimit is how long an engine may take in one round, beside the grace period of the containers. It needs some time
// also where processes get none.
func (o *Options) removalLimit() time.Duration { return max(o.KillTimeout, answerTime) }

// longestRemoval is the longest time that the removal of a session's containers may take.
func (o *Options) longestRemoval() time.Duration {
	return o.removalLimit()/2 + maxRounds*(o.ContainerGrace+o.removalLimit()+answerTime)
}

// longestRemovals is the longest time that all removals at the end of a session may take. One whose server falls asleep, or
// has crashed, may be told to end while it removes containers. What it cannot remove then, it tries to remove once more.
func (o *Options) longestRemovals() time.Duration {
	all := o.longestRemoval()
	if o.relays() {
		all *= 2
	}
	return all
}

// LongestEnd is the longest time that the end of a session may take, whatever it has.
func (o *Options) LongestEnd() time.Duration {
	end := o.EOFGrace + o.TermGrace + o.KillTimeout
	if o.Containers != ContainersOff {
		end += o.longestRemovals()
	}
	return end
}

// Exit codes of our own, as env(1) and timeout(1) have them.
const (
	ExitFailure       = 125 // mcp-tether itself failed, or was called wrongly
	ExitNotExecutable = 126 // the command was found but cannot be executed
	ExitNotFound      = 127 // the command was not found
)

// longestDuration bounds what a flag may say: sums of several must not overflow.
const longestDuration = 10 * 365 * 24 * time.Hour

// Validate reports the first option that is not valid.
func (o Options) Validate() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"eof-grace", o.EOFGrace}, {"term-grace", o.TermGrace}, {"kill-timeout", o.KillTimeout}, {"container-grace", o.ContainerGrace}, {"hibernate", o.Hibernate}} {
		if d.value < 0 {
			return fmt.Errorf("--%s %v is negative: give 0 or more, such as 1.5s", d.flag, d.value)
		}
		if d.value > longestDuration {
			return fmt.Errorf("--%s %v is more than %v", d.flag, d.value, longestDuration)
		}
	}
	if o.relays() && (o.WakeTimeout <= 0 || o.MaxMessage <= 0) {
		return fmt.Errorf("--wake-timeout %v and --max-message %d must be more than 0", o.WakeTimeout, o.MaxMessage)
	}
	switch o.OnCrash {
	case OnCrashEnd, OnCrashRestart:
	default:
		return fmt.Errorf("--on-crash %q is none of end, restart", o.OnCrash)
	}
	switch o.Cgroup {
	case CgroupAuto, CgroupOff, CgroupRequire:
	default:
		return fmt.Errorf("--cgroup %q is none of auto, off, require", o.Cgroup)
	}
	switch o.Containers {
	case ContainersAuto, ContainersAll, ContainersAttached, ContainersOff:
		return nil
	}
	return fmt.Errorf("--containers %q is none of auto, all, attached, off", o.Containers)
}

// relays reports whether the streams go through the relay.
func (o Options) relays() bool { return o.Hibernate > 0 || o.OnCrash == OnCrashRestart }

// grace are the limits of a teardown.
func (o Options) grace() teardown.Grace {
	return teardown.Grace{EOF: o.EOFGrace, Term: o.TermGrace, Kill: o.KillTimeout}
}
