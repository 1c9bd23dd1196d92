package live

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcp-tether/cgroup"
	"mcp-tether/internal/display"
	"mcp-tether/internal/session"
)

// Session is one living session as ps shows it.
type Session struct {
	session.Record
	// Procs counts the processes below the supervisor. MemoryBytes and CPUPercent are sums over them. Each process's share
	// of a processor is taken over its whole life.
	Procs       int     `json:"procs"`
	MemoryBytes uint64  `json:"memory_bytes"`
	CPUPercent  float64 `json:"cpu_percent"`
	AgeSeconds  int64   `json:"age_seconds"`
	// GatewayCommand is the gateway's command line, redacted.
	GatewayCommand string `json:"gateway_command,omitempty"`
	// GatewayState is "alive", "dead" or "unknown".
	GatewayState string `json:"gateway_state"`
	// Containers are those that the session made and that are there, filled in by AddContainers.
	Containers []display.Container `json:"containers,omitempty"`
	Tree       []Process           `json:"tree,omitempty"`
	// Leaf is what the cgroup uses and may use; nil where it has no limit.
	Leaf *cgroup.Use `json:"leaf,omitempty"`
	// Sharing is what the host of a shared server reports; nil for any other.
	Sharing *session.Sharing `json:"sharing,omitempty"`
	// Kept is why a process is left of a session that is over; "" for a living session.
	Kept string `json:"why,omitempty"`
	// Unknown says why the processes were not read; "" when they were.
	Unknown string `json:"unknown,omitempty"`

	dir *session.Directory // of the record
	// behind is the id of the session behind a front, "" for any other.
	behind string
	// silent says that its engine was used, and has not answered.
	silent bool
}

// Process is one process of a session.
type Process struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid"`
	// Depth is 0 for a child of the supervisor.
	Depth       int      `json:"depth"`
	MemoryBytes uint64   `json:"memory_bytes"`
	Command     []string `json:"command"`
}

// Selector picks sessions.
type Selector struct {
	// IDs are session ids or unambiguous beginnings of them.
	IDs  []string
	Name string
	// Gateway is the pid of a gateway, or of the process that started the session for it.
	Gateway int
	All     bool
}

// Select picks from the living sessions, each once: a second signal would cut the grace period short. An id that picks
// none or several is an error, and so is a selector that picks none.
func (s Selector) Select(all []Session) ([]Session, error) {
	living := slices.DeleteFunc(slices.Clone(all), func(l Session) bool { return l.Kept != "" })
	if s.All {
		return living, nil
	}
	var out []Session
	add := func(l Session) {
		if !slices.ContainsFunc(out, func(o Session) bool { return o.ID == l.ID && o.UID == l.UID }) {
			out = append(out, l)
		}
	}
	for _, id := range s.IDs {
		same, err := byID(all, id)
		if err != nil {
			return nil, err
		}
		for _, l := range same {
			add(l)
		}
	}
	for _, l := range living {
		if s.Name != "" && l.Name == s.Name || s.Gateway != 0 && (l.Gateway.PID == s.Gateway || l.Parent.PID == s.Gateway) {
			add(l)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no living session is meant by that (mcp-tether ps lists them)")
	}
	return out, nil
}

// byID gives the session whose id begins with id. A user may have written down another user's id. Then both sessions
// are meant, and each is asked as its own user.
func byID(all []Session, id string) ([]Session, error) {
	if id == "" {
		return nil, errors.New("an empty session id means none: give an id that mcp-tether ps lists")
	}
	var hits []Session
	ids := map[string]bool{}
	for _, l := range all {
		if strings.HasPrefix(l.ID, id) {
			hits = append(hits, l)
			ids[l.ID] = true
		}
	}
	switch len(ids) {
	case 0:
		return nil, fmt.Errorf("no living session %q (mcp-tether ps lists them)", id)
	case 1:
		return hits, nil
	}
	return nil, fmt.Errorf("%d sessions begin with %q: give more of the id", len(ids), id)
}
