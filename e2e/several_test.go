package e2e

import (
	"fmt"
	"strings"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// ownRecord is the id of the record that names this session's server, among those of others, which may be removed meanwhile. A
// server may be ready before its record is written.
func (s *session) ownRecord() (own string) {
	s.t.Helper()
	testkit.Until(s.t, fmt.Sprint("a record that names server ", s.Server), func() bool {
		for _, id := range s.Records() {
			if s.Record(id).Server.PID == s.Server {
				own = id
			}
		}
		return own != ""
	})
	return own
}

// whole tells whether the server answers, and that many processes hold the lifeline. Members that hold the lock in
// its place count as one.
func (s *session) whole(members int) bool {
	s.t.Helper()
	if !strings.Contains(s.Ask(`{"id":7,"method":"ping"}`), `"id":7`) {
		return false
	}
	return len(s.Members()) == members && stage.Held(s.Flock) == s.locks()
}

// locks tells whether the tree has members that hold the lock.
func (s *session) locks() bool {
	return strings.Contains(stage.Describe(s.Server).Args, "closefds")
}
