package supervise

import (
	"syscall"

	"mcp-tether/proc"
)

// Of the signals that reach one of our processes, four end the session, SIGCHLD and SIGPIPE concern ourselves, and all
// others are passed on to the server (which signals are caught at all: proc.Blockable). On a terminal the job control
// signals keep their default, so that Ctrl-Z stops us together with the server, which is in the same process group.

const jobControl = 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)

// caught is the set of signals to read. An ending signal that was ignored when we were started stays without effect
// (nohup, background jobs of a shell); SIGTERM alone always ends the session.
func caught(inherited proc.AtExec, terminal bool) uint64 {
	respected := proc.SignalBit(syscall.SIGHUP) | proc.SignalBit(syscall.SIGINT) | proc.SignalBit(syscall.SIGQUIT)
	set := proc.Blockable &^ (inherited.Ignored & respected) &^ proc.SignalBit(syscall.SIGPIPE)
	if terminal {
		set &^= jobControl
	}
	return set
}

// listen opens the signalfd.
func listen(inherited proc.AtExec, terminal bool) (int, error) {
	if terminal {
		proc.UnblockSome(jobControl)
	}
	return proc.SignalFD(caught(inherited, terminal))
}

// ends reports whether a signal ends the session.
func ends(n syscall.Signal) bool {
	switch n {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// fromKeyboard reports whether the terminal sent a signal to its whole foreground group: there the server has it
// already, and so has each of our processes.
func fromKeyboard(c proc.Caught) bool {
	return c.FromKernel && (c.Signal == syscall.SIGINT || c.Signal == syscall.SIGQUIT || c.Signal == syscall.SIGWINCH)
}
