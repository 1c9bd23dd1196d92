// A supervisor waits nearly all of its life: it needs one processor, and no thread that looks for more.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command mcp-tether supervises stdio MCP servers: when a session ends, however it ends, nothing that the server
// started is left, and nothing else is touched.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"mcp-tether/argv"
	"mcp-tether/delegate"
	"mcp-tether/describe"
	"mcp-tether/proc"
	"mcp-tether/share"
	"mcp-tether/supervise"
)

func main() {
	// The parent death signal, signal mask and command name belong to a thread, which must be the main one. No system call
	// may come before the lock, or the runtime goes on with another thread.
	runtime.LockOSThread()
	proc.RestoreTimerSlack()
	os.Exit(run(os.Args))
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
	if own, ok := argv.SplitDelegatedArgs(args); ok {
		if err := delegate.Confine(); err != nil {
			return exit(exitLook, err)
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
	if args[1] == "run" && os.Getpid() != 1 && argv.WantsShare(args[2:], os.Getenv(argv.EnvShare)) {
		code, err := share.Attach(args)
		var cannot *share.CannotError
		if !errors.As(err, &cannot) {
			return exit(code, err)
		}
		exit(0, err)
	}
	if args[1] == "run" && os.Getpid() != 1 && argv.WantsAnchor(args[2:], os.Getenv("MCP_TETHER_NO_ANCHOR")) {
		return anchor(args)
	}
	return command(args, nil)
}

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
		supervise.ReopenStderr()
		fmt.Fprintln(os.Stderr, "mcp-tether:", describe.Error(err))
	}
	return code
}
