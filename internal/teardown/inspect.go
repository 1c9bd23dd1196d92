package teardown

import (
	"os"

	"mcp-tether/internal/proc"
)

// inspector reads the processes of a teardown, and finds out which are to be kept. One that keeps its readers waiting, or may not be
// read, is not kept. unread says that there was no descriptor or memory to inspect one with in this look, nil if all could be.
type inspector struct {
	reader proc.Reader
	unread error
}

// keepRules say which processes are to be kept, beside those of our user with KeepMark in their environment.
type keepRules struct {
	// patterns hold for all processes.
	patterns []string
	// markVar and keepVar are the variables with which a process names its session, and the patterns that hold for the
	// process itself; "" for none.
	markVar, keepVar string
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

// keeps reports whether a process is to be kept.
func (i *inspector) keeps(p proc.Stat, rules keepRules) bool {
	if i.matches(p, rules.patterns) {
		return true
	}
	return (i.hasEnv(p, KeepMark) || rules.keepVar != "" && i.matches(p, i.brought(p, rules))) && i.isOwn(p)
}

// isOwn reports whether the environment of a process is our user's word. That of a set-user-ID program is its caller's.
func (i *inspector) isOwn(p proc.Stat) bool {
	own, err := i.reader.OwnWords(p.PID, os.Getuid())
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

// brought are the patterns in the environment of a process that names its session.
func (i *inspector) brought(p proc.Stat, rules keepRules) (patterns []string) {
	v, err := i.reader.Env(p, rules.markVar, rules.keepVar)
	i.note(err)
	if err == nil && v[0] != "" && v[1] != "" {
		patterns, _ = SplitKeep(v[1])
	}
	return patterns
}
