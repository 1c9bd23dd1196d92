//go:build !linux

// Command bench measures what mcp-tether costs. It reads /proc, so there is nothing to measure elsewhere.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: runs on Linux only")
	os.Exit(2)
}
