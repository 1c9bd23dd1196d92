package supervise

import (
	"syscall"

	"mcp-tether/proc"
)

// Of the signals that reach one of our processes, four end the session, SIGCHLD and SIGPIPE concern ourselves, and all
// others are passed on to the server. On a terminal the job control signals keep their default, so that Ctrl-Z stops us
// together with the server, which is in the same process group.

const jobControl = 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)

// listen catches the signals and returns the descriptor on which they arrive. An ending signal that was ignored when we
// were started stays without effect (nohup, background jobs of a shell); SIGTERM alone always ends the session.
func listen(inherited proc.AtExec, terminal bool) (int, error) {
	set := ^uint64(0) &^ proc.SignalBit(syscall.SIGPIPE)
	if terminal {
		set &^= jobControl
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if inherited.Ignored&proc.SignalBit(sig) == 0 {
			continue
		}
		set &^= proc.SignalBit(sig)
		if err := proc.Ignore(sig); err != nil {
			return -1, err
		}
	}
	// Ours: a log line to a closed standard error.
	if err := proc.Ignore(syscall.SIGPIPE); err != nil {
		return -1, err
	}
	return proc.Catch(set)
}

// ends reports whether a signal ends the session.
func ends(n syscall.Signal) bool {
	switch n {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// shared reports whether the server has a signal already: on a terminal it is in the same foreground group as we are,
// and the keyboard signals reach the whole of it.
func shared(c proc.Caught, terminal bool) bool {
	return terminal && c.FromKernel && (c.Signal == syscall.SIGINT || c.Signal == syscall.SIGQUIT || c.Signal == syscall.SIGWINCH)
}
