package session

import "strings"

// redactedWord stands in the record for what looked like a secret.
const redactedWord = "[redacted]"

// secretWords are parts of the names of options, variables and headers whose values are not written down.
var secretWords = [...]string{"token", "secret", "passw", "key", "auth", "credential", "bearer", "cookie", "session"}

// Redact copies a command line without the values that look like secrets. Those are the values of options, variables,
// headers and URL parameters named like one. Long random words and the user part of URLs go too, also inside of a
// shell's command. In doubt it hides: the record is there to be recognised, not to be run. Long command lines are cut.
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
		if out[i], hideNext = redactWords(a, i == 0); len(out[i]) > maxArg {
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

// redactWords redacts one argument, word by word: it may be the command of a shell. hideNext says that the value of its
// last word follows in the next argument.
func redactWords(a string, command bool) (shown string, hideNext bool) {
	words := strings.Split(a, " ")
	for i, w := range words {
		if hideNext {
			// What ends a line of a command, perhaps with a backslash before it, is no value. Nor is what two spaces enclose.
			if strings.Trim(w, lineBlanks+`\`) != "" {
				words[i], hideNext = redactedWord, false
				if i+1 < len(words) && isOpen(w) {
					return strings.Join(append(words[:i+1], redactedWord), " "), false
				}
			}
			continue
		}
		if colon := header(w); colon >= 0 && (colon+1 < len(w) || i+1 < len(words)) {
			// The value of a header goes on to the end, with or without a space after the colon. So does one in JSON.
			name, _ := redactWord(w[:colon], command && i == 0)
			return strings.Join(append(words[:i], name+":", redactedWord), " "), false
		}
		words[i], hideNext = redactWord(w, command && i == 0)
		if i+1 < len(words) && goesOn(w, i == 0) {
			return strings.Join(append(words[:i+1], redactedWord), " "), false
		}
	}
	return strings.Join(words, " "), hideNext
}

// goesOn reports whether the value of a secret that is assigned in a word goes on behind a space. It does, or may, if the
// argument begins with the assignment: then it is no command of a shell, or one cannot tell. Elsewhere it does behind an open
// quote or a backslash, and behind the name of a scheme of authorization.
func goesOn(w string, first bool) bool {
	open := isOpen(w)
	for {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return false
		}
		if namesSecret(lastName(name)) {
			if first || open {
				return true
			}
			switch strings.ToLower(strings.TrimLeft(value, quotes)) {
			case "bearer", "basic", "token", "digest":
				return true
			}
		}
		w = value
	}
}

// isOpen reports whether a shell would go on behind the space after a word: a quote is open, or the space is escaped.
func isOpen(w string) bool {
	return strings.HasSuffix(w, `\`) || strings.Count(w, `"`)%2 > 0 || strings.Count(w, "'")%2 > 0
}

// header finds the colon in "Name:value" when the name is that of a secret, or -1. Behind other names it looks for members
// of JSON, with or without quotes. A path and the port of a host are none.
func header(w string) int {
	start := 0
	for i := range len(w) {
		if w[i] != ':' {
			continue
		}
		name := strings.TrimRight(w[start:i], quotes)
		at := strings.LastIndexAny(name, separators+"{")
		if (start == 0 || at >= 0 && name[at] != '/') && namesSecret(lastName(name)) && !strings.HasPrefix(w[i+1:], "//") {
			return i
		}
		start = i + 1
	}
	return -1
}

func redactWord(w string, command bool) (shown string, hideNext bool) {
	w = redactUser(w)
	switch name, value, ok := secretOption(w); {
	case ok && value == "":
		return redactAssignments(name), true
	case ok:
		return redactAssignments(name) + redactedWord, false
	}
	if w = redactAssignments(w); !command && looksRandom(w) {
		return redactedWord, false
	}
	return w, false
}

// lineBlanks separate words like a space, in a command of several lines. In a value they do not: there is no way to tell.
const lineBlanks = "\t\r\n"

// secretOption splits a word after an option whose value is a secret. The value is "" if it is in the next word.
func secretOption(w string) (name, value string, ok bool) {
	for at := 0; at < len(w); {
		end := len(w)
		if n := strings.IndexAny(w[at:], lineBlanks); n >= 0 {
			end = at + n
		}
		if o := w[at:end]; strings.HasPrefix(o, "-") && !strings.Contains(o, "=") && namesSecret(o) {
			rest := strings.TrimLeft(w[end:], lineBlanks+`\`)
			return w[:len(w)-len(rest)], rest, true
		}
		at = end + 1
	}
	return "", "", false
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

// redactAssignments hides the value of every "name=value" with the name of a secret, up to what separates it from the
// next.
func redactAssignments(w string) string {
	var b strings.Builder
	for {
		name, rest, ok := strings.Cut(w, "=")
		b.WriteString(name)
		if !ok {
			return b.String()
		}
		b.WriteByte('=')
		w = rest
		if rest == "" || !namesSecret(lastName(name)) {
			continue
		}
		b.WriteString(redactedWord)
		end := strings.IndexAny(rest, "&,;")
		if end < 0 {
			return b.String()
		}
		w = rest[end:]
	}
}

// lastName is the name at the end of a text, perhaps in quotes: what follows the last separator.
func lastName(text string) string {
	text = strings.TrimRight(text, quotes)
	return text[strings.LastIndexAny(text, separators)+1:]
}

// What stands before names, and what may enclose them.
const (
	separators = "=&?,;/\"'"
	quotes     = "\"'\\"
)

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
