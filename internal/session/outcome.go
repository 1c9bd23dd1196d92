package session

import (
	"strings"

	"mcp-tether/internal/proc"
)

// Outcome is how a session has ended.
type Outcome struct {
	Cause string `json:"cause"`
	// Signal is the name of the signal of CauseSignal.
	Signal string `json:"signal,omitempty"`
	// Exit is what run has exited with, -1 if that is not known.
	Exit int `json:"exit"`
	// Ended counts the processes that were ended, Killed those of them that took SIGKILL, and Names are the first commands
	// beside the server.
	Ended  int      `json:"ended"`
	Killed int      `json:"killed"`
	Names  []string `json:"names,omitempty"`
	// Processes are those that were killed, kept or left, a bounded number of them.
	Processes []Fate `json:"processes,omitempty"`
	// Containers counts those that were removed, and Kept the processes that were left alive on purpose.
	Containers int `json:"containers,omitempty"`
	Kept       int `json:"kept,omitempty"`
	// OOMKills counts the processes that the kernel killed because memory ran out.
	OOMKills uint64 `json:"oom_kills,omitempty"`
	// Left says what could not be ended.
	Left []string `json:"left,omitempty"`
	// PeakBytes is the most memory that one process of it had; 0 if that is not known.
	PeakBytes uint64 `json:"peak_bytes,omitempty"`
}

// Cause is why a session ends, in the words of log and record.
type Cause string

// The causes. docs/reference.md says what each means to a user.
const (
	NoCause         Cause = "" // it goes on
	CauseServer     Cause = "server-exited"
	CauseStdin      Cause = "stdin-closed"
	CauseStdout     Cause = "stdout-closed"
	CauseGateway    Cause = "gateway-gone"
	CauseAnchor     Cause = "anchor-gone"
	CauseSupervisor Cause = "supervisor-gone"
	CauseSignal     Cause = "signal"
	CauseStart      Cause = "start-failed"
	CauseTooLong    Cause = "message-too-long"
	CauseChanged    Cause = "server-changed"
)

// Unless returns the cause that counts when another one comes: the first, with two exceptions. Another cause replaces a
// closed standard input as long as the server may still go on. An owner that is gone always replaces a closed standard
// output: the kernel closes a dying gateway's pipes before its pidfd tells of the death.
func (c Cause) Unless(other Cause, mayGoOn bool) Cause {
	switch {
	case c == NoCause,
		c == CauseStdin && other != CauseServer && mayGoOn,
		c == CauseStdout && (other == CauseGateway || other == CauseAnchor):
		return other
	}
	return c
}

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
