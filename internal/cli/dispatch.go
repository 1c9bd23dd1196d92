// Package cli is the command line: one file a command, and the choice of the role that this process plays. It parses
// flags, calls the rooms below, and prints what they return. Exit codes are decided here and taken by main.
package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/delegate"
	"mcp-tether/internal/describe"
	"mcp-tether/internal/eventlog"
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
		own := append([]string{args[0], "run"}, args[2:]...)
		return command(own, &role{page: page})
	case waiting.Supervisor, waiting.Recovery:
		return exit(supervise.End(page, part, happening))
	case waiting.None:
	}
	return run(args)
}

// run picks the role of a process whose runtime has started at once.
func run(args []string) int {
	if len(args) < 2 {
		return command(args, nil)
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
	if args[1] == waiting.RoleSession {
		return command(append([]string{args[0], "run"}, args[2:]...), nil)
	}
	if args[1] != "run" {
		return command(args, nil)
	}
	return runOrFront(args)
}

// runOrFront is run with flags that may ask for a front, or in a binary that has no entry before the runtime.
func runOrFront(args []string) int {
	shares := argv.WantsShare(args[2:], os.Getenv(argv.EnvShare))
	fronts := argv.WantsFront(args[2:], os.Getenv)
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
	if _, _, _, linked := waiting.Entered(); linked {
		own := append([]string{args[0], waiting.RoleSession}, args[2:]...)
		return exit(supervise.ExitFailure, fmt.Errorf("execute %s: %w", proc.SelfExe, syscall.Exec(proc.SelfExe, own, os.Environ())))
	}
	return command(args, nil)
}

// errTerminal says that a person talks to the server.
var errTerminal = errors.New("--share, --lazy, --hibernate, --on-crash, --restart-on, --stdout-guard and --keep-stderr have no effect on a terminal")

// exit reports an error, if there is one, and returns the exit code.
func exit(code int, err error) int {
	if err != nil {
		fmt.Fprintln(eventlog.Stderr(), "mcp-tether:", describe.Error(err))
	}
	return code
}
