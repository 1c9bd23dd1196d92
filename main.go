//go:build linux

// A supervisor waits nearly all of its life: it needs one processor, and no thread that looks for more.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command mcp-tether supervises stdio MCP servers: when a session ends, however it ends, nothing that the server
// started is left, and nothing else is touched.
package main

import (
	"os"

	"mcp-tether/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
