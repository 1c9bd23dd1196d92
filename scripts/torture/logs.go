//go:build amd64

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// logsVariable tells a sandbox to log all.
const logsVariable = "TORTURE_LOGS"

func logsAll() bool { return os.Getenv(logsVariable) != "" }

// watchdogTime is, in milliseconds, when the first watchdog may kill a process that is late, stuck or not.
const watchdogTime = 5000

// told is a line of ours in the log of a session: what is done to it, and to which of its processes.
type told struct {
	Test string `json:"test"`
	Role string `json:"role,omitempty"`
	Case string `json:"case,omitempty"`
	Kind string `json:"kind,omitempty"`
}

// keepLog writes the log of a session, for scripts/model to replay. Before it stands what may have been done to the session at any
// time, and behind it what was left.
func (c *campaign) keepLog(name string, k Case, r Result) error {
	if c.logs == "" || modes()[k.Mode].bare || modes()[k.Mode].alone {
		return nil // The model has an anchor.
	}
	var b strings.Builder
	for _, line := range tellCase(k, r) {
		text, err := json.Marshal(line)
		if err != nil {
			return fmt.Errorf("write the log of a case: %w", err)
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	b.WriteString(r.Log)
	if r.Verdict == verdictReaped || r.Verdict == verdictOK && len(r.Left) == 0 {
		fmt.Fprintf(&b, "\n{\"test\":\"has found nothing left\"}\n")
	}
	return os.WriteFile(filepath.Join(c.logs, name+".log"), []byte(b.String()), 0o644)
}

// tellCase says what may be done to the session of a case.
func tellCase(k Case, r Result) []told {
	m := modes()[k.Mode]
	kind := "plain"
	switch {
	case m.shares:
		kind = "shared"
	case m.sleeps:
		kind = "front"
	}
	all := []told{{Test: "runs", Case: k.String(), Kind: kind}}
	switch k.Ending {
	case endTerm:
		all = append(all, told{Test: "sends SIGTERM", Role: "client"})
	case endEOF:
		all = append(all, told{Test: "closes the input", Role: "client"})
	default:
		all = append(all, told{Test: "lets end", Role: "gateway"})
	}
	if k.First != nil {
		all = append(all, told{Test: "kills", Role: k.First.Role})
	}
	if s := k.Shot; s != nil && modelled(s.Role) {
		switch s.Fault {
		case faultDelay:
		case faultStop:
			all = append(all, told{Test: "stops", Role: s.Role})
		default: // A program that has no memory ends as well.
			all = append(all, told{Test: "kills", Role: s.Role})
		}
	}
	if r.Milliseconds >= watchdogTime {
		all = append(all, told{Test: "waits for", Role: roleSupervisor}, told{Test: "waits for", Role: roleAnchor})
	}
	if r.Verdict == verdictReaped {
		all = append(all, told{Test: "reaps", Role: "sweep"})
	}
	return all
}

// modelled reports whether the model has a process of this role.
func modelled(role string) bool {
	return role == roleFront || role == roleHost || role == roleAnchor || role == roleSupervisor
}
