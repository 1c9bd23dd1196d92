package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
	"mcp-tether/internal/front"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/share"
	"mcp-tether/internal/waiting"
	"mcp-tether/supervise"
)

// Main plays the role that the command line asks for, or that the process had before its runtime started, and returns the exit
// code.
func Main(args []string) int {
	// The parent death signal, signal mask and command name belong to a thread, which must be the main one. No system call
	// may come before the lock, or the runtime goes on with another thread.
	runtime.LockOSThread()
	switch part, page, happening, _ := waiting.Entered(); part {
	case waiting.Starter:
		if fronts, shares := argv.Wants(args[2:], os.Getenv); args[1] == "run" && (fronts || shares) {
			report(0, errTerminal)
		}
		return serve(append([]string{args[0], "run"}, args[2:]...), page)
	case waiting.Supervisor, waiting.Recovery:
		return report(supervise.End(page, part, happening))
	case waiting.Front:
		return run(args, page)
	case waiting.None:
	}
	return play(args)
}

// play is the role of a process whose runtime has started at once.
func play(args []string) int {
	if own, uid, ok, err := argv.SplitDelegatedArgs(args); ok {
		if err == nil {
			err = argv.Become(uid)
		}
		if err != nil {
			return report(exitUnread, err)
		}
		return execute(own, true)
	}
	if own, h, ok, err := argv.SplitHostArgs(args); ok {
		if err != nil {
			return report(supervise.ExitFailure, err)
		}
		return host(own, h)
	}
	switch {
	case argv.IsSweep(args):
		return report(supervise.ExitFailure, sweep())
	case len(args) > 1 && args[1] == waiting.RoleSession:
		return serve(append([]string{args[0], "run"}, args[2:]...), nil)
	case len(args) > 1 && args[1] == "run":
		return run(args, nil)
	}
	return execute(args, false)
}

// run is a user's: with flags that may ask for a front, or in a binary that has no entry before the runtime. Without a page there is no
// waiter. A front that shares never leaves, so one that goes on where another was shares nothing.
func run(args []string, page *waiting.Page) int {
	fronts, shares := argv.Wants(args[2:], os.Getenv)
	shares = shares && (page == nil || !page.Resumes())
	if page == nil && (shares || fronts) && proc.OnTerminal() {
		report(0, errTerminal)
		shares, fronts = false, false
	}
	var finder *share.Finder
	if shares {
		var err error
		if finder, err = share.NewFinder(args); err != nil {
			var cannot *share.CannotError
			if !errors.As(err, &cannot) {
				return report(supervise.ExitFailure, err)
			}
			report(0, err)
		}
	}
	if finder != nil || fronts {
		return started(args, func(s settings) (int, error) {
			s.front.Finder = finder
			return front.Run(s.front)
		})
	}
	if page != nil {
		page.Frontless = true
		return 0
	}
	return serve(args, nil)
}

// serve starts a server. Without a page, as in a binary that has no entry before the runtime, one process does everything.
func serve(args []string, page *waiting.Page) int {
	return started(args, func(s settings) (int, error) {
		if page == nil {
			return supervise.Alone(s.session)
		}
		return supervise.Start(s.session, page, len(os.Args)-len(s.session.Command))
	})
}

// host is that of a shared server, or the process that starts it.
func host(args []string, h argv.Host) int {
	return started(args, func(s settings) (int, error) {
		s.share.Host, s.share.Program, s.share.Words = h, os.Args[0], os.Args[4:]
		do := share.Serve
		if h.Launches {
			do = share.Launch
		}
		if err := do(s.share); err != nil {
			return supervise.ExitFailure, err
		}
		return 0, nil
	})
}

// started reads a command line of run, and then does what this process is for. Help goes to standard error: standard output belongs
// to the server.
func started(args []string, do func(settings) (int, error)) int {
	s, ok, err := settings{}.parse(args, os.Stderr)
	if err != nil || !ok {
		return outcome(err, supervise.ExitFailure)
	}
	return report(do(s))
}

// errTerminal says that a person talks to the server.
var errTerminal = errors.New("--share, --lazy, --hibernate, --on-crash, --restart-on, --stdout-guard and --keep-stderr have no effect on a terminal")

// report prints an error, if there is one, and returns the exit code.
func report(code int, err error) int {
	if err != nil {
		fmt.Fprintln(display.Stderr(), "mcp-tether:", display.Error(err))
	}
	return code
}
