package proc

import "strings"

// launchers start another program for their parent and wait for it: the shells, package runners and wrappers found
// between gateways and servers. When a launcher is the parent, the gateway is an ancestor further up.
var launchers = [...]string{
	"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox",
	"npm", "npx", "pnpm", "yarn", "bunx", "uv", "uvx", "pipx", "poetry",
	"env", "timeout", "nice", "nohup", "setsid", "stdbuf", "sudo", "doas", "su", "runuser", "setpriv",
	"tini", "dumb-init", "docker-init", "catatonit", "mcp-tether",
}

// IsLauncher reports whether a command name (Stat.Comm) is that of a launcher. npm sets its title to "npm exec NAME",
// login shells start with '-'.
func IsLauncher(comm string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(comm, "-"), " ")
	for _, l := range launchers {
		if name == l {
			return true
		}
	}
	return false
}

// maxAncestors bounds the climb to the gateway.
const maxAncestors = 16

// Gateway climbs from the parent to the first ancestor that is not a launcher; stat reads the entries. It returns the
// zero Stat when there is none below init, or when an entry on the way cannot be read: then only the direct parent can
// be watched.
func Gateway(parent int, stat func(pid int) (Stat, error)) Stat {
	for range maxAncestors {
		if parent <= 1 {
			return Stat{}
		}
		s, err := stat(parent)
		if err != nil {
			return Stat{}
		}
		if !IsLauncher(s.Comm) {
			return s
		}
		parent = s.PPID
	}
	return Stat{}
}
