//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "mcp-tether: this program runs on Linux only: child subreapers, pidfds and cgroups have no equal elsewhere")
	os.Exit(125)
}
