//go:build !linux

package reap

import (
	"mcp-tether/proc"
	"mcp-tether/teardown"
)

// gather needs Linux: without pidfds, start times in clock ticks and cgroups nothing could be proven.
func gather(string, Reach, func(error)) (*host, error) { return nil, proc.ErrUnsupported }

// endFindings needs Linux as well.
func endFindings([]Finding, bool, teardown.Grace, uint64) error { return proc.ErrUnsupported }
