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
	guardFlag     = "stdout-guard"
	keepErrFlag   = "keep-stderr"
	restartOnFlag = "restart-on"

	EnvHibernate = "MCP_TETHER_HIBERNATE"
	EnvOnCrash   = "MCP_TETHER_ON_CRASH"
	EnvLazy      = "MCP_TETHER_LAZY"
	EnvGuard     = "MCP_TETHER_STDOUT_GUARD"
	EnvKeepErr   = "MCP_TETHER_KEEP_STDERR"
	EnvRestartOn = "MCP_TETHER_RESTART_ON"
)

// Restart is the value of --on-crash with which a server that ended by itself is started again.
const Restart = "restart"

// WantsFront reports whether the flags before the command ask for a front: the server may be replaced, or start late, or what it
// writes is judged. args follow the word run; env gives the values of variables. The flag parser reports a value that is none.
func WantsFront(args []string, env func(name string) string) bool {
	hibernate, onCrash, help := env(EnvHibernate), env(EnvOnCrash), false
	lazy, guard, keepErr := isTrue(env(EnvLazy)), isTrue(env(EnvGuard)), isTrue(env(EnvKeepErr))
	restartOn := env(EnvRestartOn)
	eachFlag(args, func(f flag) {
		on := !f.attached || isTrue(f.value)
		switch f.name {
		case hibernateFlag:
			hibernate = f.value
		case onCrashFlag:
			onCrash = f.value
		case lazyFlag:
			lazy = on
		case guardFlag:
			guard = on
		case keepErrFlag:
			keepErr = on
		case restartOnFlag:
			restartOn = f.value
		case "help", "h":
			help = true
		}
	})
	after, err := time.ParseDuration(hibernate)
	return !help && (err == nil && after > 0 || onCrash == Restart || lazy || guard || keepErr || restartOn != "")
}

// wantsFront reports whether a flag wants a front.
func wantsFront(name string) bool {
	switch name {
	case hibernateFlag, onCrashFlag, lazyFlag, guardFlag, keepErrFlag, restartOnFlag:
		return true
	}
	return false
}

// noFront are the flags of a session that has no front, whatever the environment says.
func noFront() []string {
	const off = "=false"
	return []string{"--" + hibernateFlag + "=0", "--" + onCrashFlag + "=end", "--" + lazyFlag + off, "--" + guardFlag + off, "--" + keepErrFlag + off,
		"--" + restartOnFlag + "="}
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
