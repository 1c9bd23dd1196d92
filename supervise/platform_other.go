//go:build !linux

package supervise

import (
	"mcp-tether/argv"
	"mcp-tether/proc"
)

// Anchor needs Linux: child subreapers, pidfds and cgroups have no equal elsewhere.
func Anchor([]string) (int, *argv.Handover, error) { return ExitFailure, nil, proc.ErrUnsupported }

// Direct needs Linux as well.
func Direct() (argv.Handover, error) { return argv.Handover{}, proc.ErrUnsupported }

// Run needs Linux as well.
func Run(Options, argv.Handover) (int, error) { return ExitFailure, proc.ErrUnsupported }

// Recover needs Linux as well.
func Recover(Options, argv.Handover) (int, error) { return ExitFailure, proc.ErrUnsupported }
