package argv

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mcp-tether/internal/proc"
)

// Flags of run about sharing, which are read without a flag parser, and the variables of the first two.
const (
	shareFlag      = "share"
	shareScopeFlag = "share-scope"

	EnvShare = "MCP_TETHER_SHARE"
	EnvScope = "MCP_TETHER_SHARE_SCOPE"
)

// The values of --share-scope: the sessions of one gateway share a server, or those of all gateways of a user do.
const (
	ScopeGateway = "gateway"
	ScopeUser    = "user"
)

// WantsShare reports whether the flags before the command ask for a shared server. args follow the word run, and env is the
// value of MCP_TETHER_SHARE.
func WantsShare(args []string, env string) bool {
	wanted, help := isTrue(env), false
	eachFlag(args, func(f flag) {
		switch f.name {
		case shareFlag:
			wanted = !f.attached || isTrue(f.value)
		case "help", "h":
			help = true
		}
	})
	return wanted && !help
}

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

// SessionArgs is the command line of the session that a host starts for its server: run with these words, but without
// the flags about sharing, and without those that want a front.
func SessionArgs(program string, words []string) []string {
	out := []string{program, "run", "--" + shareFlag + "=false", "--" + hibernateFlag + "=0", "--" + onCrashFlag + "=end"}
	return append(out, wordsWithout(words, func(name string) bool { return isSharing(name) || wantsFront(name) })...)
}

// roleHost is the hidden first argument of the process that a shared server belongs to. roleLauncher is that of the
// process that starts the host, so that the host is no child of a client's process. A Host follows as the second
// argument, then the words of run.
const (
	roleHost     = "__host"
	roleLauncher = "__launch"
)

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
	Launches bool
}

// errNotHost says that a user has typed the hidden argument.
var errNotHost = errors.New(roleHost + " and " + roleLauncher + " are for mcp-tether itself: use 'mcp-tether run --share'")

// HostArgs is the command line of a host, or of its launcher, for the words that followed run.
func HostArgs(program string, h Host, words []string) []string {
	role := roleHost
	if h.Launches {
		role = roleLauncher
	}
	part := []string{
		h.Key, strconv.Itoa(h.Lock), strconv.Itoa(h.Listener), strconv.Itoa(h.Gateway.PID),
		strconv.FormatUint(h.Gateway.Start, 10), strconv.Itoa(h.GatewayFD),
	}
	return append([]string{program, role, strings.Join(part, wordSeparator), "run"}, words...)
}

// IsHost reports whether a command line is one of HostArgs. Every process can choose its command line.
func IsHost(args []string) bool {
	return len(args) > 2 && (args[1] == roleHost || args[1] == roleLauncher)
}

// SplitHostArgs undoes HostArgs: own is a command line of run. ok is false where the command line is not a host's.
func SplitHostArgs(args []string) (own []string, h Host, ok bool, err error) {
	if !IsHost(args) {
		return nil, Host{}, false, nil
	}
	part := strings.Split(args[2], wordSeparator)
	if len(args) < 4 || len(part) != 6 {
		return nil, Host{}, true, errNotHost
	}
	var n [5]uint64
	for i := range n {
		v, err := strconv.ParseInt(part[i+1], 10, 64)
		if err != nil {
			return nil, Host{}, true, fmt.Errorf("%w: %q: %w", errNotHost, args[2], err)
		}
		n[i] = uint64(v)
	}
	h = Host{
		Key: part[0], Lock: int(n[0]), Listener: int(n[1]), Gateway: proc.ID{PID: int(n[2]), Start: n[3]}, GatewayFD: int(int64(n[4])),
		Launches: args[1] == roleLauncher,
	}
	return append([]string{args[0]}, args[3:]...), h, true, nil
}
