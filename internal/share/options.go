package share

import (
	"errors"
	"fmt"
	"time"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

// Server is what a front and a host know of the session that is behind them.
type Server struct {
	// Program and Words are the command line of run: the name of the program, and what follows run.
	Program string
	Words   []string
	// EOFGrace is how long a client that has closed its end is waited for. EndLimit is how long the end of the session may take.
	EOFGrace, EndLimit time.Duration
	// Guard says that lines of the server which are no messages go to standard error. KeepStderr says that the last lines of its
	// standard error are remembered, for the errors for lost calls.
	Guard, KeepStderr bool
}

// Start starts the session with a child's streams. behind is the variable that tells it whose it is.
func (s *Server) Start(child proc.Child, behind string) (pid int, err error) {
	child.Path, child.Argv, child.Env = proc.SelfExe, argv.SessionArgs(s.Program, s.Words), append(proc.Environ(), behind)
	if pid, err = proc.Start(child); err != nil {
		return 0, fmt.Errorf("start the server's session from %s: %w", proc.SelfExe, err)
	}
	return pid, nil
}

// Options are those of a host.
type Options struct {
	argv.Host
	Server
	// Linger is how long the server lives after the last session has left, 0 or more.
	Linger time.Duration
}

// ErrCannot says that a session cannot share a server here.
var ErrCannot = errors.New("this session has a server of its own")
