//go:build !linux

package supervise

import "mcp-tether/proc"

// Anchor needs Linux: child subreapers, pidfds and cgroups have no equal elsewhere.
func Anchor([]string) (int, *Handover, error) { return ExitFailure, nil, proc.ErrUnsupported }

// Direct needs Linux as well.
func Direct() (Handover, error) { return Handover{}, proc.ErrUnsupported }

// Run needs Linux as well.
func Run(Options, Handover) (int, error) { return ExitFailure, proc.ErrUnsupported }

// Recover needs Linux as well.
func Recover(Options, Handover) (int, error) { return ExitFailure, proc.ErrUnsupported }
