package front

import (
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/share"
)

// Options are those of a front.
type Options struct {
	share.Server
	// Finder finds the host of a shared server; nil for a server of the session's own.
	Finder *share.Finder
	// Command is the server's command line.
	Command []string
	// Name and Key are those of the session, for its record.
	Name, Key string
	// Hibernate is how long a server must be idle, with nothing pending, before it falls asleep; 0 never.
	Hibernate time.Duration
	// Anyway says that only the conversation counts: what its processes do keeps no server awake.
	Anyway bool
	// RestartOnCrash says that the next message starts a server again that has ended by itself. Else the session ends.
	RestartOnCrash bool
	// RestartOn are files and directories. When they change, the server is replaced.
	RestartOn []string
	// Lazy says that the server is not started before it is needed.
	Lazy bool
	Log  display.Options
	// History says that the session is written into the history of its user when it is over.
	History bool
}
