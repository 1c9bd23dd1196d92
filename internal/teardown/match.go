package teardown

import "path"

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
