package session

import (
	"slices"
	"strings"
)

// redactedWord stands in the record for what looked like a secret.
const redactedWord = "[redacted]"

// secretWords are parts of the names of options, variables and headers whose values are not written down.
var secretWords = [...]string{"token", "secret", "passw", "key", "auth", "credential", "bearer", "cookie", "session"}

// Redact copies a command line without what looks like a secret: what follows an option, a variable, a header or a parameter
// that is named like one, long random words, and the user part of URLs. In doubt it hides: the record is there to be
// recognised, not to be run. Long command lines are cut.
func Redact(args []string) []string {
	if len(args) > maxArgs {
		args = append(args[:maxArgs:maxArgs], "...")
	}
	out := make([]string, len(args))
	hideNext := false
	for i, a := range args {
		if hideNext {
			out[i], hideNext = redactedWord, false
			continue
		}
		// It is cut to what is shown afterwards: what is behind that cut may say that what is before it is a secret.
		a = a[:min(len(a), maxLook)]
		shown, next := redactNamed(redactUser(a))
		words := strings.Split(shown, " ")
		for n, w := range words {
			if i+n > 0 && looksRandom(w) { // The command itself is no key.
				words[n] = redactedWord
			}
		}
		if out[i], hideNext = strings.Join(words, " "), next; len(out[i]) > maxArg {
			out[i] = out[i][:maxArg] + "..."
		}
	}
	return out
}

// Limits of a redacted command line, in words and bytes of a word: enough to recognise it.
const (
	maxArgs = 64
	maxArg  = 200
	maxLook = 4 << 10 // how much of a word is looked at
)

// Line is a redacted command line as one text.
func Line(args []string) string {
	line := strings.Join(Redact(args), " ")
	if len(line) > maxArg {
		return line[:maxArg] + "..."
	}
	return line
}

// What may separate words, stand before a name, and enclose one.
const (
	blanks     = " \t\r\n"
	separators = blanks + "=:&?,;/{\"'"
	quotes     = "\"'\\"
)

// redactNamed hides what follows the name of a secret, up to the end of the argument. Where a value ends is known to whoever
// reads the argument, such as a shell. hideNext says that the argument ends with an option: its value is the next one.
func redactNamed(a string) (shown string, hideNext bool) {
	for end := range len(a) + 1 {
		if end < len(a) && strings.IndexByte("=:"+blanks, a[end]) < 0 {
			continue
		}
		before := strings.TrimRight(a[:end], quotes)
		at := strings.LastIndexAny(before, separators)
		name := before[at+1:]
		if !namesSecret(name) {
			continue
		}
		switch {
		case end == len(a) || strings.IndexByte(blanks, a[end]) >= 0:
			if !strings.HasPrefix(name, "-") {
				continue
			}
			hideNext = strings.Trim(a[end:], blanks) == ""
		case a[end] == ':' && (at >= 0 && strings.IndexByte("/:", before[at]) >= 0 || strings.HasPrefix(a[end:], "://")):
			continue // a path, the port of a host, a scheme
		}
		value := strings.TrimLeft(a[min(end+1, len(a)):], blanks)
		if value == "" {
			return a, hideNext
		}
		return a[:len(a)-len(value)] + redactedWord, false
	}
	return a, false
}

// redactUser hides what stands before the host of each URL.
func redactUser(w string) string {
	before, after, ok := strings.Cut(w, "://")
	if !ok {
		return w
	}
	host, _, _ := strings.Cut(after, "/")
	user := ""
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, after = redactedWord, after[at:]
	}
	return before + "://" + user + redactUser(after)
}

func namesSecret(name string) bool {
	return slices.ContainsFunc(secretWords[:], func(w string) bool { return contains(name, w) })
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
