//go:build !linux

package live

import (
	"time"

	"mcp-tether/proc"
	"mcp-tether/session"
)

// List needs Linux: without start times and pidfds no process could be identified for certain.
func List([]*session.Directory, func(string)) ([]Session, error) { return nil, proc.ErrUnsupported }

// Others needs Linux as well.
func Others(func(string)) []Session { return nil }

// StopAs needs living sessions, and so Linux.
func StopAs([]Session, int, time.Duration) []Stopped { return nil }

// StopListed needs them, too.
func StopListed([]*session.Directory, []Session, []string, time.Duration) []Stopped { return nil }

// AddContainers needs living sessions as well.
func AddContainers([]Session) {}
