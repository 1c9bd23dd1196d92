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
	lazyFlag      = "lazy"

	EnvHibernate = "MCP_TETHER_HIBERNATE"
	EnvOnCrash   = "MCP_TETHER_ON_CRASH"
	EnvLazy      = "MCP_TETHER_LAZY"
)

// Restart is the value of --on-crash with which a server that ended by itself is started again.
const Restart = "restart"

// WantsFront reports whether the flags before the command ask for a front: the server may be replaced, or start late. args
// follow the word run; env gives the values of EnvHibernate, EnvOnCrash and EnvLazy. The flag parser reports a value that
// is none.
func WantsFront(args []string, env func(name string) string) bool {
	hibernate, onCrash, lazy, help := env(EnvHibernate), env(EnvOnCrash), isTrue(env(EnvLazy)), false
	eachFlag(args, func(f flag) {
		switch f.name {
		case hibernateFlag:
			hibernate = f.value
		case onCrashFlag:
			onCrash = f.value
		case lazyFlag:
			lazy = !f.attached || isTrue(f.value)
		case "help", "h":
			help = true
		}
	})
	after, err := time.ParseDuration(hibernate)
	return !help && (err == nil && after > 0 || onCrash == Restart || lazy)
}

// wantsFront reports whether a flag wants a front.
func wantsFront(name string) bool {
	return name == hibernateFlag || name == onCrashFlag || name == lazyFlag
}

// noFront are the flags of a session that has no front, whatever the environment says.
func noFront() []string {
	return []string{"--" + hibernateFlag + "=0", "--" + onCrashFlag + "=end", "--" + lazyFlag + "=false"}
}

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
