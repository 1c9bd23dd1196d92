package argv

import (
	"strings"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/waiting"
)

// Flags of run about sharing that are read without a flag parser, and their variables.
const (
	shareFlag       = "share"
	shareScopeFlag  = "share-scope"
	shareIgnoreFlag = "share-ignore-env"

	envShare   = "MCP_TETHER_SHARE"
	EnvScope   = "MCP_TETHER_SHARE_SCOPE"
	EnvIgnored = "MCP_TETHER_SHARE_IGNORE_ENV"
)

// The values of --share-scope: the sessions of one gateway share a server, or those of all gateways of a user do.
const (
	ScopeGateway = "gateway"
	ScopeUser    = "user"
)

// ShareScope is the value of --share-scope; env is that of MCP_TETHER_SHARE_SCOPE.
func ShareScope(args []string, env string) string {
	scope := env
	eachFlag(args, func(f flag) {
		if f.name == shareScopeFlag {
			scope = f.value
		}
	})
	return scope
}

// ShareIgnored are the variables that do not tell sessions apart, from --share-ignore-env; env is the value of
// MCP_TETHER_SHARE_IGNORE_ENV, which counts without the flag. Both are lists.
func ShareIgnored(args []string, env string) (names []string) {
	eachFlag(args, func(f flag) {
		if f.name == shareIgnoreFlag {
			names = append(names, strings.Split(f.value, ",")...)
		}
	})
	if names == nil {
		names = strings.Split(env, ",")
	}
	return names
}

// SessionArgs is the command line of the session that a host or a front starts: run with these words, but without the flags about
// sharing, and without those that want a front.
func SessionArgs(program string, words []string) []string {
	out := append([]string{program, waiting.RoleSession}, plain()...)
	return append(out, wordsWithout(words, func(f *Flag) bool { return f.Share || f.Front })...)
}

// Host is what a new host is told by the process that starts it, as one word of the command line.
type Host struct {
	// Key names the shared server among the files of its user.
	Key string
	// Lock and Listener are descriptors: the held lock of the key, and its listening socket.
	Lock, Listener int
	// Gateway is the process with whose end the host ends, and GatewayFD its pidfd or -1; zero with --share-scope=user.
	Gateway   proc.ID
	GatewayFD int
	// Launches says that the process is the launcher of the host. It is no part of the word.
	Launches bool `json:"-"`
}

// HostArgs is the command line of a host, or of its launcher, for the words that followed run.
func HostArgs(program string, h Host, words []string) []string {
	role := roleHost
	if h.Launches {
		role = roleLauncher
	}
	return inRole(program, role, append([]string{word(h), "run"}, words...)...)
}

// IsHost reports whether a command line is one of HostArgs.
func IsHost(args []string) bool { return hasRole(args, roleHost, roleLauncher) }

// SplitHostArgs undoes HostArgs: own is a command line of run. ok is false where the command line is not a host's.
func SplitHostArgs(args []string) (own []string, h Host, ok bool, err error) {
	if !IsHost(args) {
		return nil, h, false, nil
	}
	own, err = splitRole(args, &h)
	h.Launches = args[1] == roleLauncher
	return own, h, true, err
}
