package proc

import (
	"slices"
	"strings"
)

// launchers start another program for their parent and wait for it: package runners and wrappers found between gateways
// and servers. When a launcher is the parent, the gateway is an ancestor further up.
var launchers = [...]string{
	"busybox",
	"npm", "npx", "pnpm", "yarn", "bunx", "uv", "uvx", "pipx", "poetry",
	"env", "timeout", "nice", "nohup", "setsid", "stdbuf", "sudo", "doas", "su", "runuser", "setpriv",
	"tini", "dumb-init", "docker-init", "catatonit", "mcp-tether",
}

// shells are launchers only when they were started for one command ("sh -c COMMAND"). A shell that runs a script, or
// that a person types into, is a gateway of its own. Under nohup, such a script goes on when the terminal is gone.
var shells = [...]string{"sh", "bash", "dash", "ash", "zsh", "ksh", "fish"}

// IsLauncher reports whether a command name (Stat.Comm) is that of a launcher or a shell. npm sets its title to
// "npm exec NAME", login shells start with '-'.
func IsLauncher(comm string) bool {
	name := launcherName(comm)
	return slices.Contains(launchers[:], name) || slices.Contains(shells[:], name)
}

func launcherName(comm string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(comm, "-"), " ")
	return name
}

// maxAncestors bounds the climb to the gateway.
const maxAncestors = 16

// Gateway climbs from the parent to the first ancestor that is not a launcher. stat reads the entries and args the
// command lines. program is our own name, which the command of a shell must contain. The result is the zero Stat when
// there is no such ancestor below init, or when an entry on the way cannot be read. Then only the direct parent can be
// watched.
func Gateway(parent int, program string, stat func(pid int) (Stat, error), args func(Stat) ([]string, error)) Stat {
	for range maxAncestors {
		if parent <= 1 {
			return Stat{}
		}
		s, err := stat(parent)
		if err != nil {
			return Stat{}
		}
		name := launcherName(s.Comm)
		if !slices.Contains(launchers[:], name) && !(slices.Contains(shells[:], name) && runs(s, program, args)) {
			return s
		}
		parent = s.PPID
	}
	return Stat{}
}

// runs reports whether the command that a shell was given as an argument ("sh -c COMMAND") names a program. The
// arguments of a script do not count.
func runs(shell Stat, program string, args func(Stat) ([]string, error)) bool {
	words, _ := args(shell)
	command := shellCommand(words)
	return strings.Contains(command, program) || strings.Contains(command, "mcp-tether")
}

// shellCommand is the COMMAND of "sh -c COMMAND", with whatever options before it; "" where there is none.
func shellCommand(args []string) string {
	given := false
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--rcfile", a == "--init-file":
			i++
		case strings.HasPrefix(a, "--") && a != "--":
		case len(a) > 1 && (a[0] == '-' || a[0] == '+') && a != "--":
			given = given || a[0] == '-' && strings.Contains(a, "c")
			if last := a[len(a)-1]; last == 'o' || last == 'O' {
				i++
			}
		case given && a == "--" && i+1 < len(args):
			return args[i+1]
		case given:
			return a
		default:
			return ""
		}
	}
	return ""
}
