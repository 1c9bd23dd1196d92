package live

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/proc"
)

// JSON writes the sessions as one object, and says what could not be read.
func JSON(w io.Writer, all []Session, unread []string) error {
	return describe.JSON(w, struct {
		Version    int       `json:"version"`
		Sessions   []Session `json:"sessions"`
		Incomplete []string  `json:"incomplete,omitempty"`
	}{describe.SchemaVersion, append([]Session{}, all...), unread}) // [] instead of null
}

// Text writes the sessions for people, with each process and container if tree is set.
func Text(w io.Writer, all []Session, tree bool) error {
	t := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION\tNAME\tSTATE\tGATEWAY\tSERVER\tPROCS\tCONTAINERS\tMEMORY\tCPU\tAGE\tCOMMAND")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%.1f%%\t%s\t%s\n", l.ID, l.name(), l.state(), l.gateway(), describe.Number(l.Server.PID),
			l.Procs, l.countContainers(), describe.Size(l.MemoryBytes), l.CPUPercent, describe.Age(l.AgeSeconds), describe.Command(l.Args))
		l.writeAttached(t)
		if tree {
			l.writeTree(t)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the sessions: %w", err)
	}
	return nil
}

func (l Session) name() string {
	if l.Name == "" {
		return "-"
	}
	return describe.Text(l.Name)
}

// state is the state of the session, with the cause of its end and how often its server slept, or was restarted.
func (l Session) state() string {
	out := l.State
	if l.Cause != "" {
		out += " (" + l.Cause + ")"
	}
	if l.Sleeps > 0 {
		out += fmt.Sprintf(", slept %d, woke %d", l.Sleeps, l.Wakes)
	}
	if l.Sleepless != "" {
		out += ", sleeps no more: " + l.Sleepless
	}
	if l.Restarts > 0 {
		out += fmt.Sprintf(", restarted %d", l.Restarts)
	}
	if s := l.Sharing; s != nil {
		out += fmt.Sprintf(", shared by %d", len(s.Sessions))
	}
	return describe.Text(out)
}

func (l Session) gateway() string {
	if l.GatewayState == proc.Alive.String() {
		return fmt.Sprint(l.Gateway.PID)
	}
	return fmt.Sprintf("%d (%s)", l.Gateway.PID, describe.Text(l.GatewayState))
}

// writeAttached lists the sessions that share the server, each by the process that its gateway has started.
func (l Session) writeAttached(w io.Writer) {
	if l.Sharing == nil {
		return
	}
	for _, a := range l.Sharing.Sessions {
		fmt.Fprintf(w, "\t\tattached\t%d\t%d\t\t\t\t\t\tmcp-tether run --share\n", a.Gateway.PID, a.PID)
	}
}

// countContainers is the number of containers, with a question mark when the engine did not confirm it.
func (l Session) countContainers() string {
	n := fmt.Sprint(len(l.Containers))
	if slices.ContainsFunc(l.Containers, func(c describe.Container) bool { return c.State == describe.UnknownState }) {
		n += "?"
	}
	return n
}

// maxIndent bounds how far a process is moved to the right.
const maxIndent = 32

// indent moves a process below its parent. Another user may have written any depth.
func (p Process) indent() string { return strings.Repeat("  ", min(max(p.Depth, 0), maxIndent)) }

func (l Session) writeTree(w io.Writer) {
	for _, n := range l.Tree {
		fmt.Fprintf(w, "\t\t\t\t%d\t\t\t%s\t\t\t%s%s\n", n.PID, describe.Size(n.MemoryBytes), n.indent(), describe.Command(n.Command))
	}
	for _, c := range l.Containers {
		fmt.Fprintf(w, "\t\t\t\t\t\t%s\t\t\t\t%s\n", describe.Text(c.ShortID()), describe.Text(c.Title()))
	}
}
