package argv

import "strings"

// CommandAt is the index at which the server's command begins among the words that follow run. It begins after "--", or
// at the first word that is neither a flag nor the value of one. It is len(args) where there is no command.
func CommandAt(args []string) int {
	return eachFlag(args, func(flag) {})
}

// NameWords are the words of --name among the flags before the command; nil if there is none.
func NameWords(args []string) (words []string) {
	eachFlag(args, func(f flag) {
		if f.name == nameFlag {
			words = f.words
		}
	})
	return words
}

// flag is one flag in a command line.
type flag struct {
	name, value string
	// attached says that the value follows "=" and is no word of its own.
	attached bool
	// words are the words that it takes up.
	words []string
}

// eachFlag visits the flags before the command, and returns where the command begins.
func eachFlag(args []string, visit func(flag)) (command int) {
	for i := 0; i < len(args); {
		a := args[i]
		if a == "--" {
			return i + 1
		}
		if len(a) < 2 || a[0] != '-' {
			return i
		}
		f := flag{words: args[i : i+1]}
		f.name, f.value, f.attached = strings.Cut(strings.TrimPrefix(a[1:], "-"), "=")
		if !f.attached && !isSwitch(f.name) && i+1 < len(args) {
			f.value, f.words = args[i+1], args[i:i+2]
		}
		visit(f)
		i += len(f.words)
	}
	return len(args)
}

// isSwitch reports whether a flag of run takes no value. Every other flag takes the next word unless it has "=".
func isSwitch(name string) bool {
	if f := find(Run[:], name); f != nil {
		return f.Kind == Switch
	}
	return isHelp(name)
}

func isHelp(name string) bool { return name == "help" || name == "h" }

// isTrue follows strconv.ParseBool. The flag parser reports what that refuses.
func isTrue(s string) bool {
	switch s {
	case "1", "t", "T", "true", "TRUE", "True":
		return true
	}
	return false
}
