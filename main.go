// A session sleeps nearly all of its life: it needs no more than one processor, and nobody to look for more.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command mcp-tether supervises stdio MCP servers: when a session ends, however it ends, nothing that the server
// started is left, and nothing else is touched.
package main

import (
	"fmt"
	"os"
	"runtime"

	"mcp-tether/supervise"
)

func main() {
	// What belongs to a thread (parent death signal, signal mask, command name) must belong to the main one.
	runtime.LockOSThread()
	os.Exit(run(os.Args))
}

// run picks the role. The anchor comes first: it must stay as small as a process can be, so it runs before any flag is
// parsed.
func run(args []string) int {
	if len(args) < 2 {
		return command(args, nil)
	}
	switch args[1] {
	case "run":
		if os.Getpid() == 1 || !supervise.WantsAnchor(args[2:], os.Getenv("MCP_TETHER_NO_ANCHOR")) {
			return command(args, nil)
		}
		return anchor(args)
	case supervise.RoleSupervise:
		if len(args) < 4 {
			return exit(supervise.ExitFailure, fmt.Errorf("%s is for mcp-tether itself: use 'mcp-tether run'", args[1]))
		}
		return takeOver(args)
	}
	return command(args, nil)
}

// takeOver continues the command line of the anchor as the supervisor.
func takeOver(args []string) int {
	hand, err := supervise.ParseHandover(args[2])
	if err != nil {
		return exit(supervise.ExitFailure, err)
	}
	return command(append([]string{args[0]}, args[3:]...), &role{hand: hand})
}

// anchor parses no flags, unless the supervisor was killed and its work falls to us.
func anchor(args []string) int {
	code, orphaned, err := supervise.Anchor(args)
	if orphaned == nil {
		return exit(code, err)
	}
	return command(args, &role{hand: *orphaned, recover: true})
}

// exit reports an error and gives the exit code.
func exit(code int, err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcp-tether:", err)
	}
	return code
}
