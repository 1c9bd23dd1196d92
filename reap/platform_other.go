//go:build !linux

package reap

import (
	"mcp-tether/proc"
	"mcp-tether/teardown"
)

// Gather needs Linux: without pidfds, start times in clock ticks and cgroups nothing could be proven.
func Gather(string, Reach, func(error)) (*Host, error) { return nil, proc.ErrUnsupported }

// End needs Linux as well.
func End([]Finding, bool, teardown.Grace) error { return proc.ErrUnsupported }

// List needs Linux as well.
func List(string) ([]Live, error) { return nil, proc.ErrUnsupported }

// Stop needs Linux as well.
func Stop([]Live, StopOptions) ([]Stopped, error) { return nil, proc.ErrUnsupported }

// AddContainers needs living sessions, and so Linux.
func AddContainers([]Live) {}
