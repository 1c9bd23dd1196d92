package teardown

import (
	"os"
	"path"
	"time"

	"mcp-tether/internal/proc"
)

// inspector reads the processes of a teardown, and finds out which are to be kept. One that keeps its readers waiting, or may not be
// read, is not kept. unread says that there was no descriptor or memory to inspect one with in this look, nil if all could be.
type inspector struct {
	reader proc.Reader
	unread error
}

// note notes an error that says nothing about the process.
func (i *inspector) note(err error) {
	if proc.Starved(err) {
		i.unread = err
	}
}

// hasEnv reports whether a process was started with an assignment in its environment.
func (i *inspector) hasEnv(p proc.Stat, assignment string) bool {
	has, err := i.reader.HasEnv(p, assignment)
	i.note(err)
	return has
}

// keeps reports whether a process is to be kept: one of the patterns matches it, or it is our user's and has KeepMark in its
// environment.
func (i *inspector) keeps(p proc.Stat, patterns []string) bool {
	return i.matches(p, patterns) || i.hasEnv(p, KeepMark) && i.isOwn(p)
}

// holdsOlder reports whether a process holds a container from before the session, which is not the session's.
func (i *inspector) holdsOlder(p proc.Stat, began time.Time) bool {
	if p.Comm != "conmon" {
		return false
	}
	args, err := i.reader.Args(p)
	i.note(err)
	return HoldsOlder(p.Comm, args, began)
}

// isOwn reports whether the environment of a process is our user's word. That of a set-user-ID program is its caller's.
func (i *inspector) isOwn(p proc.Stat) bool {
	own, err := proc.OwnWords(p.PID, os.Getuid())
	i.note(err)
	return own
}

// matches reports whether one of the patterns matches a process.
func (i *inspector) matches(p proc.Stat, patterns []string) bool {
	if len(patterns) == 0 {
		return false
	}
	args, err := i.reader.Args(p)
	i.note(err)
	return KeptBy(patterns, p.Comm, args)
}

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
