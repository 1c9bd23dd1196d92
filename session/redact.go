package session

import "strings"

// Redacted stands in the record for what looked like a secret.
const Redacted = "[redacted]"

// secretWords mark the name of an option, variable or header whose value is not written down.
var secretWords = [...]string{"token", "secret", "passw", "key", "auth", "credential", "bearer", "cookie", "session"}

// Redact copies a command line without the values that look like secrets: those of options named like one, long random
// words, and the user part of URLs. It would rather hide too much: the record is there to be recognised, not to be run.
// Long command lines are cut.
func Redact(args []string) []string {
	if len(args) > maxArgs {
		args = append(args[:maxArgs:maxArgs], "...")
	}
	out := make([]string, len(args))
	hideNext := false
	for i, a := range args {
		switch {
		case i > 0 && hideNext && !strings.HasPrefix(a, "-"):
			out[i], hideNext = Redacted, false
		default:
			out[i], hideNext = redactOne(a, i == 0)
		}
	}
	return out
}

// Limits of a redacted command line, in words and bytes of a word: enough to recognise it.
const (
	maxArgs = 64
	maxArg  = 200
)

// Line is a redacted command line as one text.
func Line(args []string) string {
	line := strings.Join(Redact(args), " ")
	if len(line) > maxArg {
		return line[:maxArg] + "..."
	}
	return line
}

func redactOne(a string, command bool) (shown string, hideNext bool) {
	if len(a) > maxArg {
		a = a[:maxArg] + "..."
	}
	if name, value, ok := strings.Cut(a, "="); ok && value != "" && namesSecret(name) {
		return name + "=" + Redacted, false
	}
	if strings.HasPrefix(a, "-") && namesSecret(a) && !strings.Contains(a, "=") {
		return a, true
	}
	if name, value, ok := strings.Cut(a, ":"); ok && namesSecret(name) && strings.TrimSpace(value) != "" {
		return name + ": " + Redacted, false
	}
	if at, scheme := strings.IndexByte(a, '@'), strings.Index(a, "://"); scheme > 0 && at > scheme {
		return a[:scheme+3] + Redacted + a[at:], false
	}
	if !command && looksRandom(a) {
		return Redacted, false
	}
	return a, false
}

func namesSecret(name string) bool {
	name = strings.ToLower(name)
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// looksRandom finds words such as API keys: 20 or more letters, digits, '_' and '-' without a break, with digits
// between letters.
func looksRandom(a string) bool {
	if len(a) < 20 {
		return false
	}
	letters, digits := 0, 0
	for _, c := range []byte(a) {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			letters++
		case c != '_' && c != '-':
			return false
		}
	}
	return letters >= 4 && digits >= 4
}
