//go:build amd64 || arm64

package waiting

import "strings"

// isSession reports whether the command line is that of a session, and whether this may have a front.
func isSession() (session, front bool) {
	if argumentCount() < 2 {
		return false, false
	}
	switch argument(1) {
	case RoleSession:
		return true, false
	case "run":
		return true, mayHaveFront()
	}
	return false, false
}

// mayHaveFront reports whether one of the flags or variables is there that ask for a front. The runtime will tell; where
// there is none after all, the waiter executes the program once more (RoleSession).
func mayHaveFront() bool {
	for n := 2; n < argumentCount() && argument(n) != "--"; n++ {
		if text := argument(n); text != "" && text[0] == '-' && asksForFront(strings.TrimLeft(text, "-")) {
			return true
		}
	}
	for _, variable := range environment() {
		if name, ours := strings.CutPrefix(textAt(variable), "MCP_TETHER_"); ours && asksForFront(name) {
			return true
		}
	}
	return false
}

// asksForFront reports whether a text begins with the name of a flag that asks for a front, or of its variable.
func asksForFront(text string) bool {
	name, _, _ := strings.Cut(text, "=")
	for _, flag := range [...]string{"share", "lazy", "hibernate", "on-crash", "stdout-guard", "keep-stderr", "restart-on"} {
		same := len(name) == len(flag)
		for i := 0; same && i < len(flag); i++ {
			same = name[i] == '_' && flag[i] == '-' || name[i]|0x20 == flag[i]
		}
		if same {
			return true
		}
	}
	return false
}
