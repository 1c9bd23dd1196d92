package session

import (
	"strings"

	"mcp-tether/internal/proc"
)

// Fate is what became of a process at the end of its session.
type Fate struct {
	proc.ID
	// Command is its command line without what looks like a secret.
	Command string `json:"command"`
	// What is Killed, Reaped, or begins with Kept or Left and says why.
	What string `json:"what"`
}

// How a Fate begins.
const (
	Killed = "killed"
	Kept   = "kept: "
	Left   = "left: "
	// Reaped is that of a process which ended with reap, or with the sweep of a later session.
	Reaped = "ended by reap"
)

// FateOf is that of a process with such a command line. Without one it is known by its command name.
func FateOf(p proc.Stat, args []string, what string) Fate {
	f := Fate{ID: p.ID, Command: Line(args), What: what}
	if f.Command == "" {
		f.Command = "[" + p.Comm + "]"
	}
	return f
}

// Says reports whether a text is in what is told of a process, whatever the case of its letters.
func (f *Fate) Says(text string) bool { return contains(f.Command, text) || contains(f.What, text) }

func contains(in, text string) bool {
	return strings.Contains(strings.ToLower(in), strings.ToLower(text))
}
