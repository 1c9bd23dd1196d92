package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
)

// Ending one of several servers never touches another.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name string
		end  func(*session)
	}{
		{"stdin closed", (*session).closeStdin},
		{"wrapper terminated", func(s *session) { s.Signal(syscall.SIGTERM) }},
		{"wrapper killed", func(s *session) { s.Signal(syscall.SIGKILL) }},
		{"supervisor killed", func(s *session) { _ = syscall.Kill(s.Supervisor(), syscall.SIGKILL) }},
		{"server killed", func(s *session) { _ = syscall.Kill(s.Server, syscall.SIGKILL) }},
	}
	for i, e := range ends {
		cgroup := []string{"auto", "off"}[i%2]
		t.Run(e.name+"/cgroup="+cgroup, func(t *testing.T) {
			sample(t, 3)
			t.Parallel()
			testSeveral(t, cgroup, e.end)
		})
	}
}

func testSeveral(t *testing.T, cgroup string, end func(*session)) {
	g := startGateway(t)
	var all []*session
	for range 3 {
		s := g.newSession()
		if len(all) > 0 {
			s.Runtime = all[0].Runtime // as real ones share it
		}
		s.Spawn(setup{Flags: polite("--cgroup=" + cgroup)}, node(s.Dir, "serve", "daemon", "setsid,closefds,clearenv")...)
		all = append(all, s)
	}
	for _, s := range all {
		s.WaitReady()
	}
	for _, s := range all {
		s.IDs = []string{s.ownRecord()}
	}
	one, others := all[1], []*session{all[0], all[2]}
	end(one)
	one.WaitDead()
	for _, s := range others {
		// Two of the wrapper, the server, the daemon. For a moment there may be a sweep as well.
		awaitTrue(t, "session "+s.Name+" to be whole", func() bool { return s.whole(4) })
	}
	if left := others[0].Records(); len(left) != 2 || slices.Contains(left, one.ID()) {
		t.Errorf("records %v, want those of %v", left, []string{others[0].IDs[0], others[1].IDs[0]})
	}
	g.Kill()
	for _, s := range others {
		s.WaitDead()
	}
	for _, s := range all {
		s.NothingLeft()
	}
}

// ownRecord is the id of the record that names this session's server, among those of others, which may be removed meanwhile. A
// server may be ready before its record is written.
func (s *session) ownRecord() (own string) {
	s.t.Helper()
	awaitTrue(s.t, fmt.Sprint("a record that names server ", s.Server), func() bool {
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
