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

// verdict says in a line what matters most in all checks: what leaks, what else is wrong, and what is not wrapped.
func verdict(all []Check) string {
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
	leaked, open, memory := 0, 0, uint64(0)
	for _, c := range all {
		switch {
		case c.About == AboutLeaks && c.State == Fail:
			leaked++
			memory += c.MemoryBytes
		case c.About == AboutLeaks && c.State == Warn:
			open++
		}
	}
	switch {
	case leaked > 0 && memory > 0:
		return fmt.Sprintf("leaks: %d, with %s of memory", leaked, display.Size(memory))
	case leaked > 0:
		return fmt.Sprintf("leaks: %d", leaked)
	case open > 0:
		return "nothing is proven to leak"
	}
	return "nothing leaks"
}

func wrapped(all []Check) string {
	var sum Count
	for _, c := range all {
		sum.Servers += c.Servers
		sum.Bare += c.Bare
	}
	if sum.Servers == 0 {
		return "no server was found in a configuration"
	}
	return fmt.Sprintf("%d of %d servers are wrapped", sum.Servers-sum.Bare, sum.Servers)
}
