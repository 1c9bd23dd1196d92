package waiting

import "golang.org/x/sys/unix"

// RoleSession is the hidden first argument of a session that certainly has no front.
const RoleSession = "__session"

// ExitFailure is the exit code of a failure of mcp-tether itself.
const ExitFailure = 125

// Role is what a process has become before its runtime started.
type Role uint8

// The roles.
const (
	None       Role = iota // an ordinary program
	Starter                // it prepares the server's start
	Supervisor             // it ends the session, or serves the container engine
	Recovery               // a child of the anchor, it ends the session that the supervisor has not ended
	Front                  // a child of the waiter, it serves the client before a server that may be replaced
)

// Inherited is what a process inherits and a Go runtime changes: the signals that were blocked and ignored, with bit n-1 for
// signal n, and the limit of open files.
type Inherited struct{ Mask, Ignored, Files, MostFiles uint64 }

// Event is what made the supervisor start its runtime.
type Event struct {
	Kind Kind
	// Signal is that of BySignal.
	Signal unix.Signal
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds.
const (
	BySignal  Kind = 1 + iota // a signal that ends
	ByAnchor                  // the anchor is gone
	ByParent                  // the process that has started the anchor is gone
	ByGateway                 // the gateway behind a launcher is gone
	ByStdin                   // standard input was closed
	ByStdout                  // nobody reads standard output
	ByServer                  // the server has ended
	ByClient                  // a client of the container engine connects
	ByExec                    // the server could not be executed (Page.Failure)
	ByStarter                 // the starter was killed
)
