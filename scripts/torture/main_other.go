//go:build !(linux && amd64)

// Command torture injects faults into sessions of mcp-tether. It changes registers of traced processes, which is written
// for Linux on amd64 only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "torture: runs on Linux on amd64 only")
	os.Exit(2)
}
