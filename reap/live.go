package reap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"mcp-tether/session"
)

// Live is one session as ps shows it.
type Live struct {
	session.Record
	// Procs counts the processes below the supervisor.
	Procs       int     `json:"procs"`
	MemoryBytes uint64  `json:"memory_bytes"`
	CPUPercent  float64 `json:"cpu_percent"`
	AgeSeconds  int64   `json:"age_seconds"`
	// GatewayCommand is the gateway's command line.
	GatewayCommand string `json:"gateway_command,omitempty"`
	// GatewayState is "alive", "dead" or "unknown".
	GatewayState string `json:"gateway_state"`
	// Containers are those that the session made or started and that are there, filled in by AddContainers.
	Containers []FoundContainer `json:"containers,omitempty"`
	Tree       []Node           `json:"tree,omitempty"`

	dir string
}

// Node is one process of a session.
type Node struct {
	PID         int      `json:"pid"`
	PPID        int      `json:"ppid"`
	Depth       int      `json:"depth"`
	MemoryBytes uint64   `json:"memory_bytes"`
	Command     []string `json:"command"`
}

// StopOptions say how long to wait for sessions to end.
type StopOptions struct{ Timeout time.Duration }

// Stopped is what became of a session that was asked to end.
type Stopped struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Ended bool   `json:"ended"`
	Error string `json:"error,omitempty"`
}

// Selector picks sessions.
type Selector struct {
	// IDs are session ids or unambiguous beginnings of them.
	IDs     []string
	Name    string
	Gateway int
	All     bool
}

// Select picks from the living sessions. An id that picks none, or several, is an error.
func (s Selector) Select(all []Live) ([]Live, error) {
	if s.All {
		return all, nil
	}
	var out []Live
	for _, id := range s.IDs {
		if id == "" {
			return nil, errors.New("an empty session id means none: give an id that mcp-tether ps lists")
		}
		var hits []Live
		for _, l := range all {
			if strings.HasPrefix(l.ID, id) {
				hits = append(hits, l)
			}
		}
		switch {
		case len(hits) == 0:
			return nil, fmt.Errorf("no living session %s (mcp-tether ps lists them)", id)
		case len(hits) > 1:
			return nil, fmt.Errorf("%d sessions begin with %s: give more of the id", len(hits), id)
		}
		out = append(out, hits[0])
	}
	for _, l := range all {
		if s.Name != "" && l.Name == s.Name || s.Gateway != 0 && (l.Gateway.PID == s.Gateway || l.Parent.PID == s.Gateway) {
			out = append(out, l)
		}
	}
	seen := map[string]bool{}
	out = slices.DeleteFunc(out, func(l Live) bool {
		again := seen[l.ID]
		seen[l.ID] = true
		return again
	})
	if len(out) == 0 {
		return nil, fmt.Errorf("no living session is meant by that (mcp-tether ps lists them)")
	}
	return out, nil
}

// LiveJSON writes the sessions as one object.
func LiveJSON(w io.Writer, all []Live) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if all == nil {
		all = []Live{}
	}
	return e.Encode(struct {
		Version  int    `json:"version"`
		Sessions []Live `json:"sessions"`
	}{SchemaVersion, all})
}

// LiveText writes the sessions for people.
func LiveText(w io.Writer, all []Live, tree bool) error {
	t := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION\tNAME\tSTATE\tGATEWAY\tSERVER\tPROCS\tCONTAINERS\tMEMORY\tCPU\tAGE\tCOMMAND")
	for _, l := range all {
		state := l.state()
		gateway := fmt.Sprint(l.Gateway.PID)
		if l.GatewayState != Alive.String() {
			gateway += " (" + l.GatewayState + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%.1f%%\t%s\t%s\n", l.ID, Printable(orDash(l.Name)), Printable(state), gateway,
			dash(l.Server.PID), l.Procs, l.countContainers(), Size(l.MemoryBytes), l.CPUPercent, age(l.AgeSeconds), Printable(strings.Join(l.Args, " ")))
		if tree {
			l.writeTree(t)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the sessions: %w", err)
	}
	return nil
}

// state is the session's, with why it is ending and how often its server slept.
func (l Live) state() string {
	out := l.State
	if l.Cause != "" {
		out += " (" + l.Cause + ")"
	}
	if l.Sleeps > 0 {
		out += fmt.Sprintf(", slept %d, woke %d", l.Sleeps, l.Wakes)
	}
	return out
}

func (l Live) writeTree(w io.Writer) {
	for _, n := range l.Tree {
		fmt.Fprintf(w, "\t\t\t\t%d\t\t\t%s\t\t\t%s%s\n", n.PID, Size(n.MemoryBytes), strings.Repeat("  ", n.Depth),
			Printable(strings.Join(n.Command, " ")))
	}
	for _, c := range l.Containers {
		fmt.Fprintf(w, "\t\t\t\t\t\t%s\t\t\t\t%s\n", Printable(c.ID[:min(len(c.ID), shortID)]), Printable(c.title()))
	}
}

// unknownState is that of a container of which the engine does not say anything.
const unknownState = "unknown"

// countContainers is the number for people, with a question mark when the engine did not confirm it.
func (l Live) countContainers() string {
	for _, c := range l.Containers {
		if c.State == unknownState {
			return fmt.Sprint(len(l.Containers), "?")
		}
	}
	return fmt.Sprint(len(l.Containers))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
