package supervise

import (
	"syscall"

	"mcp-tether/proc"
)

// Four of the signals that reach one of our processes end the session. SIGCHLD and SIGPIPE concern ourselves. All others
// are passed on to the server. On a terminal the job control signals keep their default action, so that Ctrl-Z stops us
// together with the server, which is in the same process group.

const jobControl = 1<<(syscall.SIGTSTP-1) | 1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)

// ignored are the signals that our own writes raise: a log line to a closed standard error, a record beyond the file size
// limit (setrlimit(2), RLIMIT_FSIZE), a log line to a terminal from the background (termios(3), TOSTOP).
var ignored = [...]syscall.Signal{syscall.SIGPIPE, syscall.SIGXFSZ, syscall.SIGTTOU}

// listen catches the signals and returns the descriptor on which they arrive. An ending signal that was ignored when we
// were started stays without effect (nohup, background jobs of a shell). SIGTERM always ends the session. jobs says that
// the shell's job control applies to us, too.
func listen(inherited proc.AtExec, jobs bool) (int, error) {
	set := ^uint64(0)
	if jobs {
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
	for _, sig := range ignored {
		if jobs && jobControl&proc.SignalBit(sig) != 0 {
			continue
		}
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

// ours reports whether the kernel has sent a signal because of our own limit of processor time.
func ours(c proc.Caught) bool { return c.FromKernel && c.Signal == syscall.SIGXCPU }

// shared reports whether a signal has reached the server already. Signals from the keyboard reach the whole process group
// that the gateway gave us, and the server may be in it.
func shared(c proc.Caught, group bool) bool {
	return group && c.FromKernel && (c.Signal == syscall.SIGINT || c.Signal == syscall.SIGQUIT || c.Signal == syscall.SIGWINCH)
}
