package teardown

import (
	"path"
	"strings"
)

// KeptBy reports whether one of the patterns of --keep matches a process: its command name, its first argument, or the
// base name of that.
func KeptBy(patterns []string, comm string, args []string) bool {
	if len(patterns) == 0 {
		return false
	}
	names := []string{comm}
	if len(args) > 0 {
		names = append(names, args[0], path.Base(args[0]))
	}
	for _, pattern := range patterns {
		for _, name := range names {
			if Match(pattern, name) {
				return true
			}
		}
	}
	return false
}

// maxJoined bounds what JoinKeep gives, in bytes. The kernel takes variables of up to 128 KiB.
const maxJoined = 8 << 10

// tooLong is what JoinKeep gives for patterns that are longer. SplitKeep does not understand it.
const tooLong = "?"

// JoinKeep writes the patterns of --keep as one text. Each is followed by ':', and '\' stands before each ':' and '\' in it.
func JoinKeep(patterns []string) string {
	var b strings.Builder
	for _, pattern := range patterns {
		for i := range len(pattern) {
			if c := pattern[i]; c == ':' || c == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(pattern[i])
		}
		b.WriteByte(':')
	}
	if b.Len() > maxJoined {
		return tooLong
	}
	return b.String()
}

// SplitKeep reads what JoinKeep has written. It is not ok if a part of that is missing, or if another program wrote it.
func SplitKeep(text string) (patterns []string, ok bool) {
	if len(text) > maxJoined {
		return nil, false
	}
	var pattern []byte
	complete := true
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ':':
			patterns = append(patterns, string(pattern))
			pattern, complete = pattern[:0], true
			continue
		case '\\':
			if i++; i == len(text) || text[i] != ':' && text[i] != '\\' {
				return nil, false
			}
		}
		pattern, complete = append(pattern, text[i]), false
	}
	if !complete {
		return nil, false
	}
	return patterns, true
}

// Match reports whether name matches a shell pattern in which '*' stands for any text and '?' for one byte. Unlike in
// path.Match there are no classes and '*' crosses '/', so no pattern is malformed.
func Match(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
