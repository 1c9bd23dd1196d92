package share

import (
	"time"

	"mcp-tether/internal/argv"
)

// Options are those of a host.
type Options struct {
	argv.Host
	// Program and Words are the command line of run: the name of the program, and what follows run.
	Program string
	Words   []string
	// Linger is how long the server lives after the last session has left, 0 or more.
	Linger time.Duration
	// EOFGrace is how long a session that has closed its standard input waits for its answers. EndLimit is how long the
	// end of the server may take.
	EOFGrace, EndLimit time.Duration
	// Guard says that lines of the server which are no messages go to standard error of the first session. KeepStderr says that
	// the last line of the server's standard error is in the errors for lost calls.
	Guard, KeepStderr bool
	// Scope is the value of --share-scope.
	Scope string
}

// CannotError says why a session cannot share a server here.
type CannotError struct{ why error }

func (e *CannotError) Error() string { return "this session has a server of its own: " + e.why.Error() }

func (e *CannotError) Unwrap() error { return e.why }
