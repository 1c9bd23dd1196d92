package teardown

import (
	"os"
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
