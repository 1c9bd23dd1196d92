package supervise

import (
	"syscall"
	"time"

	"mcp-tether/internal/proc"
)

// Four of the signals that reach one of our processes end the session. SIGCHLD and SIGPIPE concern ourselves. All
// others are passed on to the server. On a terminal the job control signals keep their default action. So Ctrl-Z stops
// us together with the server, which is in the same process group.

// terminalRole is what job control means for one of our processes.
type terminalRole uint8

const (
	noJob         terminalRole = iota // no terminal: job control signals are like any other
	jobMember                         // it is stopped and continued with the job
	backgroundJob                     // it has the terminal, and is in no foreground group
)

// signalled is what a session knows of the signals that it has caught.
type signalled struct {
	sigfd   int
	arrived []proc.Caught
	// bySignal is the signal of session.CauseSignal.
	bySignal syscall.Signal
	// interrupted is when the terminal's last interrupt came.
	interrupted time.Time
}

// listen catches the signals and returns the descriptor on which they arrive. An ending signal that was ignored when we
// were started stays without effect (nohup, background jobs of a shell); SIGTERM alone always ends the session.
func listen(inherited proc.AtExec, role terminalRole) (int, error) {
	switch role {
	case jobMember:
		return proc.Listen(inherited, proc.JobControl)
	case backgroundJob:
		// Our writes raise this one as well: a log line to the terminal (termios(3), TOSTOP). With a handler, the write would
		// be tried for ever.
		return proc.Listen(inherited, 0, syscall.SIGTTOU)
	}
	return proc.Listen(inherited, 0)
}
