package argv

import (
	"slices"
	"strings"
	"time"
)

// Flags of run that make a front necessary, and the variables of those that have no name elsewhere.
const (
	hibernateFlag = "hibernate"
	onCrashFlag   = "on-crash"

	EnvHibernate = "MCP_TETHER_HIBERNATE"
	EnvOnCrash   = "MCP_TETHER_ON_CRASH"
)

// WantsFront reports whether the flags before the command ask for something that only a front can do: another start of
// the server, or a shared one. args follow the word run, and env looks a variable up. A value that cannot be read counts:
// the flag parser reports it.
func WantsFront(args []string, env func(string) string) bool {
	hibernate, onCrash, share, help := env(EnvHibernate), env(EnvOnCrash), isTrue(env(EnvShare)), false
	eachFlag(args, func(f flag) {
		switch f.name {
		case hibernateFlag:
			hibernate = f.value
		case onCrashFlag:
			onCrash = f.value
		case shareFlag:
			share = !f.attached || isTrue(f.value)
		case "help", "h":
			help = true
		}
	})
	idle, err := time.ParseDuration(hibernate)
	naps := hibernate != "" && (err != nil || idle != 0)
	restarts := onCrash != "" && onCrash != "end"
	return !help && (naps || restarts || share)
}

// BackendArgs is the command line of the session that a front or a host starts for its server: run with these words, which
// followed run, but without what makes a front. What stands before it says so in the environment (session.EnvBehind).
func BackendArgs(program string, words []string) []string {
	out := []string{program, "run", "--" + shareFlag + "=false", "--" + hibernateFlag + "=0s", "--" + onCrashFlag + "=end"}
	command := eachFlag(words, func(f flag) {
		if !strings.HasPrefix(f.name, shareFlag) && !slices.Contains([]string{hibernateFlag, onCrashFlag}, f.name) {
			out = append(out, f.words...)
		}
	})
	return append(append(out, "--"), words[command:]...)
}
