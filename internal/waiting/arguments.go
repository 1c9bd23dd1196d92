//go:build amd64 || arm64

package waiting

import "unsafe"

// argument is where the n-th word of the command line is; it ends with a zero byte.
func argument(n uintptr) uintptr { return word(initialStack + wordSize*(1+n)) }

// environment is where the list of variables begins.
func environment() uintptr { return initialStack + wordSize*(2+word(initialStack)) }

// starts reports whether the text at a place begins with prefix.
func starts(at uintptr, prefix string) bool {
	p := uintptr(unsafe.Pointer(unsafe.StringData(prefix)))
	for end := p + uintptr(len(prefix)); p < end; p, at = p+1, at+1 {
		if char(p) != char(at) {
			return false
		}
	}
	return true
}

// equals reports whether the text at a place is word.
func equals(at uintptr, word string) bool {
	return starts(at, word) && char(at+uintptr(len(word))) == 0
}

// isSession reports whether the command line is that of a session, and whether this may have a front.
func isSession() (session, front bool) {
	if word(initialStack) < 2 {
		return false, false
	}
	if equals(argument(1), RoleSession) {
		return true, false
	}
	session = equals(argument(1), "run")
	return session, session && mayHaveFront()
}

// mayHaveFront reports whether one of the flags or variables is there that ask for a front. The runtime will tell; where
// there is none after all, the waiter executes the program once more (RoleSession).
func mayHaveFront() bool {
	for n, count := uintptr(2), word(initialStack); n < count; n++ {
		at := argument(n)
		if equals(at, "--") {
			break
		}
		if char(at) != '-' {
			continue
		}
		for at++; char(at) == '-'; at++ {
		}
		if starts(at, "share") || starts(at, "lazy") || starts(at, "hibernate") || starts(at, "on-crash") ||
			starts(at, "stdout-guard") || starts(at, "keep-stderr") || starts(at, "restart-on") {
			return true
		}
	}
	for at := environment(); word(at) != 0; at += wordSize {
		if starts(word(at), "MCP_TETHER_") && isFrontVariable(word(at)+uintptr(len("MCP_TETHER_"))) {
			return true
		}
	}
	return false
}

func isFrontVariable(at uintptr) bool {
	return starts(at, "SHARE=") || starts(at, "LAZY=") || starts(at, "HIBERNATE=") || starts(at, "ON_CRASH=") ||
		starts(at, "STDOUT_GUARD=") || starts(at, "KEEP_STDERR=") || starts(at, "RESTART_ON=")
}
