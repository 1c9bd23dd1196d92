// Package cli is the command line: one file a command, and the choice of the role that this process plays. It parses
// flags, calls the rooms below, and prints what they return. Exit codes are decided here and taken by main.
package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/delegate"
	"mcp-tether/internal/describe"
	"mcp-tether/internal/eventlog"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/share"
	"mcp-tether/supervise"
)

// Main plays the role that the command line asks for, and returns the exit code.
func Main(args []string) int {
	// The parent death signal, signal mask and command name belong to a thread, which must be the main one. No system call
	// may come before the lock, or the runtime goes on with another thread.
	runtime.LockOSThread()
	proc.RestoreTimerSlack()
	return run(args)
}

// run picks the role. The anchor must stay as small as a process can be, so it runs before any flag is parsed.
func run(args []string) int {
	if len(args) < 2 {
		return command(args, nil)
	}
	if own, hand, ok, err := argv.SplitSupervisorArgs(args); ok {
		if err != nil {
			return exit(supervise.ExitFailure, err)
		}
		return command(own, &role{hand: hand})
	}
	if own, uid, ok, err := argv.SplitDelegatedArgs(args); ok {
		if err == nil {
			err = delegate.Become(uid)
		}
		if err != nil {
			return exit(exitUnread, err)
		}
		return command(own, &role{delegated: true})
	}
	if own, host, ok, err := argv.SplitHostArgs(args); ok {
		if err != nil {
			return exit(supervise.ExitFailure, err)
		}
		return command(own, &role{host: &host})
	}
	if argv.IsSweep(args) {
		return exit(supervise.ExitFailure, sweep())
	}
	shares := args[1] == "run" && os.Getpid() != 1 && argv.WantsShare(args[2:], os.Getenv(argv.EnvShare))
	fronts := args[1] == "run" && argv.WantsFront(args[2:], os.Getenv)
	if (shares || fronts) && proc.OnTerminal() {
		exit(0, errTerminal)
		shares, fronts = false, false
	}
	if shares {
		finder, err := share.NewFinder(args)
		var cannot *share.CannotError
		switch {
		case err == nil:
			return command(args, &role{front: true, finder: finder})
		case !errors.As(err, &cannot):
			return exit(supervise.ExitFailure, err)
		}
		exit(0, err)
	}
	if fronts {
		return command(args, &role{front: true})
	}
	if args[1] == "run" && os.Getpid() != 1 && argv.WantsAnchor(args[2:], os.Getenv("MCP_TETHER_NO_ANCHOR")) {
		return anchor(args)
	}
	return command(args, nil)
}

// errTerminal says that a person talks to the server.
var errTerminal = errors.New("--share, --lazy, --hibernate, --on-crash, --stdout-guard and --keep-stderr have no effect on a terminal")

// anchor parses flags only if the session does not end in time, or if the supervisor was killed.
func anchor(args []string) int {
	code, orphan, err := supervise.Anchor(args, func() supervise.Options { return optionsOf(args) })
	if orphan != nil {
		code, err = supervise.Recover(optionsOf(args), *orphan)
	}
	return exit(code, err)
}

// exit reports an error, if there is one, and returns the exit code.
func exit(code int, err error) int {
	if err != nil {
		fmt.Fprintln(eventlog.Stderr(), "mcp-tether:", describe.Error(err))
	}
	return code
}
