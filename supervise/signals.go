package supervise

import (
	"syscall"

	"mcp-tether/internal/proc"
)

// Four of the signals that reach one of our processes end the session. SIGCHLD and SIGPIPE concern ourselves. All
// others are passed on to the server. On a terminal the job control signals keep their default action. So Ctrl-Z stops
// us together with the server, which is in the same process group.

const jobControl = 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)

// terminalRole is what job control means for one of our processes.
type terminalRole uint8

const (
	noJob         terminalRole = iota // no terminal: job control signals are like any other
	jobMember                         // it is stopped and continued with the job
	backgroundJob                     // it has the terminal, and is in no foreground group
)

// listen catches the signals and returns the descriptor on which they arrive. An ending signal that was ignored when we
// were started stays without effect (nohup, background jobs of a shell); SIGTERM alone always ends the session.
func listen(inherited proc.AtExec, role terminalRole) (int, error) {
	set := ^uint64(0)
	if role == jobMember {
		set &^= jobControl
	}
	// What our own writes raise: to a closed standard error, and to a file that exceeds the limit of file sizes
	// (setrlimit(2), RLIMIT_FSIZE). The kernel sends both as if we did, so they cannot be told from what others send us.
	ignored := []syscall.Signal{syscall.SIGPIPE, syscall.SIGXFSZ}
	if role == backgroundJob {
		// Our writes raise this one as well: a log line to the terminal (termios(3), TOSTOP). With a handler, the write would
		// be tried for ever.
		ignored = append(ignored, syscall.SIGTTOU)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if inherited.Ignored&proc.SignalBit(sig) != 0 {
			ignored = append(ignored, sig)
		}
	}
	for _, sig := range ignored {
		set &^= proc.SignalBit(sig)
		if err := proc.Ignore(sig); err != nil {
			return -1, err
		}
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

// ours reports whether the kernel has sent a signal because of our own limit of processor time (setrlimit(2)).
func ours(c proc.Caught) bool { return c.FromKernel && c.Signal == syscall.SIGXCPU }

// shared reports whether a signal has reached the server already. Signals from the keyboard reach the whole process group
// that the gateway gave us, and the server may be in it.
func shared(c proc.Caught, group bool) bool {
	return group && c.FromKernel && (c.Signal == syscall.SIGINT || c.Signal == syscall.SIGQUIT || c.Signal == syscall.SIGWINCH)
}
