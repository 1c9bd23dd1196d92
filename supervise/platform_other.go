//go:build !linux

package supervise

import (
	"mcp-tether/argv"
	"mcp-tether/proc"
)

// Orphan is a session whose supervisor was killed.
type Orphan struct{}

// Anchor needs Linux: child subreapers, pidfds and cgroups have no equal elsewhere.
func Anchor([]string, func() Options) (int, *Orphan, error) {
	return ExitFailure, nil, proc.ErrUnsupported
}

// Direct needs Linux as well.
func Direct() (argv.Handover, error) { return argv.Handover{}, proc.ErrUnsupported }

// Run needs Linux as well.
func Run(Options, argv.Handover) (int, error) { return ExitFailure, proc.ErrUnsupported }

// Recover needs Linux as well.
func Recover(Options, Orphan) (int, error) { return ExitFailure, proc.ErrUnsupported }

// Remove needs Linux as well.
func Remove(Options, argv.Handover) int { return ExitFailure }

// CloseInherited has nothing to close where no session runs.
func CloseInherited() {}

// ReopenStderr has nothing to undo where no session runs.
func ReopenStderr() {}
