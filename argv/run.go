package argv

import "strings"

// switches are the flags of run that take no value. Every other flag takes the next word unless it has "=".
var switches = [...]string{noAnchor, "help", "h"}

const noAnchor = "no-anchor"

// WantsAnchor reports whether the flags before the command leave the anchor in place. args follow the word run, and
// noAnchorEnv is the value of MCP_TETHER_NO_ANCHOR.
func WantsAnchor(args []string, noAnchorEnv string) bool {
	wanted := !isTrue(noAnchorEnv)
	eachFlag(args, func(name, value string, hasValue bool) {
		if name == noAnchor {
			wanted = hasValue && !isTrue(value)
		}
	})
	return wanted
}

// CommandAt is the index at which the server's command begins among the words that follow run: after "--", or at the first
// word that is neither a flag nor the value of one. It is len(args) where there is no command.
func CommandAt(args []string) int {
	return eachFlag(args, func(string, string, bool) {})
}

// eachFlag visits the flags before the command, and returns where the command begins. The value is "" for a flag whose
// value is the next word.
func eachFlag(args []string, visit func(name, value string, hasValue bool)) (command int) {
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return i + 1
		}
		if len(a) < 2 || a[0] != '-' {
			return i
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(a[1:], "-"), "=")
		visit(name, value, hasValue)
		if !hasValue && !isSwitch(name) {
			i++
		}
	}
	return len(args)
}

func isSwitch(name string) bool {
	for _, s := range switches {
		if name == s {
			return true
		}
	}
	return false
}

// isTrue follows strconv.ParseBool. The flag parser reports what that refuses.
func isTrue(s string) bool {
	switch s {
	case "1", "t", "T", "true", "TRUE", "True":
		return true
	}
	return false
}
