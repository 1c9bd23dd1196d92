package front

import (
	"time"

	"mcp-tether/internal/display"
	"mcp-tether/internal/share"
)

// Options are those of a front.
type Options struct {
	// Program and Words are the command line of run: the name of the program, and what follows run.
	Program string
	Words   []string
	// Finder finds the host of a shared server; nil for a server of the session's own.
	Finder *share.Finder
	// Command is the server's command line.
	Command []string
	// Name and Key are those of the session, for its record.
	Name, Key string
	// Hibernate is how long a server must be idle, with nothing pending, before it falls asleep; 0 never. WakeTimeout bounds
	// the handshake with a server that takes the place of another.
	Hibernate, WakeTimeout time.Duration
	// Anyway says that only the conversation counts: what its processes do keeps no server awake.
	Anyway bool
	// RestartOnCrash says that the next message starts a server again that has ended by itself. Else the session ends.
	RestartOnCrash bool
	// RestartOn are files and directories. When they change, the server is replaced.
	RestartOn []string
	// Lazy says that the server is not started before it is needed.
	Lazy bool
	// Guard says that lines of the server which are no messages go to standard error. KeepStderr says that the last lines of the
	// server's standard error are remembered.
	Guard, KeepStderr bool
	// EOFGrace is how long a client that has closed its end is waited for. EndLimit is how long the end of a backend may take.
	EOFGrace, EndLimit time.Duration
	Log                display.Options
	// History says that the session is written into the history of its user when it is over.
	History bool
}
