//go:build !linux

package share

import "mcp-tether/proc"

// Attach needs Linux: descriptors that are passed on, shared memory that outlives a process, pidfds.
func Attach([]string) (int, error) { return 125, proc.ErrUnsupported }

// Launch needs Linux as well.
func Launch(Options) error { return proc.ErrUnsupported }

// Serve needs Linux as well.
func Serve(Options) error { return proc.ErrUnsupported }
