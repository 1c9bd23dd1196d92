package doctor

import (
	"fmt"
	"slices"
	"strings"

	"mcp-tether/internal/display"
)

// Count is what a check has counted; all is 0 where it counts nothing.
type Count struct {
	// Servers are those in a client's configuration, and Bare those of them that are not wrapped.
	Servers int `json:"servers,omitempty"`
	Bare    int `json:"not_wrapped,omitempty"`
	// Processes are those of a leak, and MemoryBytes what they hold.
	Processes   int    `json:"processes,omitempty"`
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
}

// The things that a verdict is about.
const (
	aboutClients = "clients"
	AboutLeaks   = "leaks"
)

// Verdict says in a line what matters most in all checks: what leaks, what else is wrong, and what is not wrapped.
func Verdict(all []Check) string {
	parts := []string{leaks(all)}
	var wrong []string
	for _, c := range all {
		if c.State == Fail && c.About != AboutLeaks && !slices.Contains(wrong, c.About) {
			wrong = append(wrong, c.About)
		}
	}
	if len(wrong) > 0 {
		parts = append(parts, strings.Join(wrong, ", ")+" failed")
	}
	return strings.Join(append(parts, wrapped(all)), "; ")
}

func leaks(all []Check) string {
	var sum Count
	servers, remnants, open := 0, 0, 0
	for _, c := range all {
		switch {
		case c.About != AboutLeaks || c.State == OK:
		case c.State == Warn:
			open++
		case c.Processes == 0:
			remnants++
		default:
			servers++
			sum.MemoryBytes += c.MemoryBytes
		}
	}
	switch {
	case servers > 0 && sum.MemoryBytes == 0: // containers
		return fmt.Sprintf("leaked servers: %d", servers)
	case servers == 1:
		return "1 leaked server holds " + display.Size(sum.MemoryBytes)
	case servers > 1:
		return fmt.Sprintf("%d leaked servers hold %s", servers, display.Size(sum.MemoryBytes))
	case remnants > 0:
		return "something without a process is left of a session"
	case open > 0:
		return "nothing is proven to leak"
	}
	return "nothing leaks"
}

func wrapped(all []Check) string {
	var sum Count
	unread := false
	for _, c := range all {
		if c.About == aboutClients {
			sum.Servers += c.Servers
			sum.Bare += c.Bare
			unread = unread || c.State != OK && c.Servers == 0
		}
	}
	switch {
	case sum.Bare > 0:
		return fmt.Sprintf("%d of %d servers are wrapped", sum.Servers-sum.Bare, sum.Servers)
	case sum.Servers == 0:
		return "no server was found in a configuration"
	case unread:
		return fmt.Sprintf("all %d servers that could be read are wrapped", sum.Servers)
	case sum.Servers == 1:
		return "the one server is wrapped"
	}
	return fmt.Sprintf("all %d servers are wrapped", sum.Servers)
}
