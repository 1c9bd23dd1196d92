package supervise

import "strings"

// Arguments of `run` as far as they must be known before a flag parser is loaded.

// switches are the flags of run that take no value; every other flag takes the next word unless it has "=".
var switches = [...]string{"no-anchor", "help", "h"}

// WantsAnchor reports whether the flags before the command leave the anchor in place. noAnchorEnv is the value of
// MCP_TETHER_NO_ANCHOR.
func WantsAnchor(args []string, noAnchorEnv string) bool {
	wanted := !isTrue(noAnchorEnv)
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' || a == "--" {
			break
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(a[1:], "-"), "=")
		switch {
		case name == "no-anchor":
			wanted = hasValue && !isTrue(value)
		case !hasValue && !isSwitch(name):
			i++
		}
	}
	return wanted
}

func isSwitch(name string) bool {
	for _, s := range switches {
		if name == s {
			return true
		}
	}
	return false
}

// isTrue follows strconv.ParseBool; what that refuses, the flag parser reports.
func isTrue(s string) bool {
	switch s {
	case "1", "t", "T", "true", "TRUE", "True":
		return true
	}
	return false
}
