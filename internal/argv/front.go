package argv

import (
	"strings"
	"time"
)

// Flags of run that want a front, and their variables.
const (
	hibernateFlag = "hibernate"
	anywayFlag    = "hibernate-anyway"
	onCrashFlag   = "on-crash"

	EnvHibernate = "MCP_TETHER_HIBERNATE"
	EnvOnCrash   = "MCP_TETHER_ON_CRASH"
)

// Restart is the value of --on-crash with which a server that ended by itself is started again.
const Restart = "restart"

// WantsFront reports whether the flags before the command ask for a front: the server may be replaced. args follow the word
// run; hibernate and onCrash are the values of EnvHibernate and EnvOnCrash. The flag parser reports a value that is none.
func WantsFront(args []string, hibernate, onCrash string) bool {
	help := false
	eachFlag(args, func(f flag) {
		switch f.name {
		case hibernateFlag:
			hibernate = f.value
		case onCrashFlag:
			onCrash = f.value
		case "help", "h":
			help = true
		}
	})
	after, err := time.ParseDuration(hibernate)
	return !help && (err == nil && after > 0 || onCrash == Restart)
}

// BackendArgs is the command line of the session behind a front: run with these words, but without the flags that want a
// front.
func BackendArgs(program string, words []string) []string {
	out := []string{program, "run", "--" + hibernateFlag + "=0", "--" + onCrashFlag + "=end"}
	return append(out, wordsWithout(words, wantsFront)...)
}

// wantsFront reports whether a flag wants a front.
func wantsFront(name string) bool { return name == hibernateFlag || name == onCrashFlag }

// wordsWithout leaves out flags before the command, which then follows "--".
func wordsWithout(words []string, drop func(flag string) bool) (out []string) {
	command := eachFlag(words, func(f flag) {
		if !drop(f.name) {
			out = append(out, f.words...)
		}
	})
	return append(append(out, "--"), words[command:]...)
}

// isSharing reports whether a flag is about sharing.
func isSharing(name string) bool { return strings.HasPrefix(name, shareFlag) }
