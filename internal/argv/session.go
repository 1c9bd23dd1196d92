package argv

import "mcp-tether/internal/waiting"

// SweepArgs is the command line of a sweep, for the program that was started under the given name.
func SweepArgs(program string) []string { return inRole(program, roleSweep) }

// IsSweep reports whether a command line is one of SweepArgs.
func IsSweep(args []string) bool { return hasRole(args, roleSweep) && len(args) == 2 }

// IsSession reports whether a command line is that of a session, with a front or without. Every process can choose its own.
func IsSession(args []string) bool { return hasRole(args, "run", waiting.RoleSession) }
