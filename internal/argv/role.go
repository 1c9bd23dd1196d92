package argv

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"mcp-tether/internal/waiting"
)

// The hidden first arguments, with which one process of ours starts another. A word may follow that tells it more, and then
// the command line that it continues.
const (
	// roleHost is the process that a shared server belongs to. roleLauncher starts the host, so that the host is no child of a
	// client's process. Their word is a Host.
	roleHost     = "__host"
	roleLauncher = "__launch"
	// roleSweep ends the user's dead sessions beside a session. Nothing follows.
	roleSweep = "__sweep"
	// roleDelegated becomes a user, to work in the place of root. Its word is the user's number; a command and its flags follow.
	roleDelegated = "__as"
)

// inRole is a command line in a role.
func inRole(program, role string, rest ...string) []string {
	return append([]string{program, role}, rest...)
}

// hasRole reports whether a command line is in one of the roles. Every process can choose its command line.
func hasRole(args []string, roles ...string) bool {
	return len(args) > 1 && slices.Contains(roles, args[1])
}

// errRole says that a user has typed a role.
var errRole = errors.New("this is for mcp-tether itself: use 'mcp-tether run'")

// word makes the word of a role. All that is told can be written.
func word(told any) string {
	b, _ := json.Marshal(told)
	return string(b)
}

// splitRole undoes inRole for a role with a word, which it reads into told.
func splitRole(args []string, told any) (own []string, err error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("%s: %w", args[1], errRole)
	}
	if err := json.Unmarshal([]byte(args[2]), told); err != nil {
		return nil, fmt.Errorf("%s %.80q: %w: %w", args[1], args[2], errRole, err)
	}
	return append([]string{args[0]}, args[3:]...), nil
}

// SweepArgs is the command line of a sweep, for the program that was started under the given name.
func SweepArgs(program string) []string { return inRole(program, roleSweep) }

// IsSweep reports whether a command line is one of SweepArgs.
func IsSweep(args []string) bool { return hasRole(args, roleSweep) && len(args) == 2 }

// IsSession reports whether a command line is that of a session, with a front or without. Every process can choose its own.
func IsSession(args []string) bool { return hasRole(args, "run", waiting.RoleSession) }

// delegatedArgs is the command line of a child that becomes a user, for the program that was started under the given
// name.
func delegatedArgs(program string, uid int, words []string) []string {
	return inRole(program, roleDelegated, append([]string{word(uid)}, words...)...)
}

// SplitDelegatedArgs undoes delegatedArgs: the command line without what is hidden. ok is false where the command line
// is not a delegated one.
func SplitDelegatedArgs(args []string) (own []string, uid int, ok bool, err error) {
	if !hasRole(args, roleDelegated) {
		return nil, 0, false, nil
	}
	if own, err = splitRole(args, &uid); err == nil && uid < 0 {
		// To setresuid(2), a negative number means "no other".
		err = fmt.Errorf("%s: %w", args[1], errRole)
	}
	return own, uid, true, err
}
