package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Ending one of several servers never touches another.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name string
		end  func(*session)
	}{
		{"stdin closed", (*session).closeStdin},
		{"wrapper terminated", func(s *session) { s.signal(syscall.SIGTERM) }},
		{"wrapper killed", func(s *session) { s.signal(syscall.SIGKILL) }},
		{"supervisor killed", func(s *session) { _ = syscall.Kill(s.supervisor(), syscall.SIGKILL) }},
		{"server killed", func(s *session) { _ = syscall.Kill(s.server, syscall.SIGKILL) }},
	}
	for i, e := range ends {
		cgroup := []string{"auto", "off"}[i%2]
		t.Run(e.name+"/cgroup="+cgroup, func(t *testing.T) {
			sample(t, 3, i+1)
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
			s.runtime = all[0].runtime // as real ones share it
		}
		s.spawn(setup{flags: polite("--cgroup=" + cgroup)}, node(s.dir, "serve", "daemon", "setsid,closefds,clearenv")...)
		all = append(all, s)
	}
	for _, s := range all {
		s.waitReady()
	}
	for _, s := range all {
		s.ids = []string{s.ownRecord()}
	}
	one, others := all[1], []*session{all[0], all[2]}
	end(one)
	one.waitDead()
	for _, s := range others {
		// Two of the wrapper, the server, the daemon. For a moment there may be a sweep as well.
		awaitTrue(t, "session "+s.name+" to be whole", func() bool { return s.whole(4) })
	}
	if left := others[0].records(); len(left) != 2 || slices.Contains(left, one.id()) {
		t.Errorf("records %v, want those of %v", left, []string{others[0].ids[0], others[1].ids[0]})
	}
	g.kill()
	for _, s := range others {
		s.waitDead()
	}
	for _, s := range all {
		s.nothingLeft()
	}
}

// ownRecord is the id of the record that names this session's server, among those of others, which may be removed meanwhile. A
// server may be ready before its record is written.
func (s *session) ownRecord() (own string) {
	s.t.Helper()
	awaitTrue(s.t, fmt.Sprint("a record that names server ", s.server), func() bool {
		for _, id := range s.records() {
			if s.recordNow(id).Server.PID == s.server {
				own = id
			}
		}
		return own != ""
	})
	return own
}

// A process that somebody else started with the same command line lives on.
func TestSameCommandOfOthers(t *testing.T) {
	t.Parallel()
	for i, e := range endings {
		cgroup := []string{"auto", "off"}[i%2]
		t.Run("cgroup="+cgroup+"/"+e.name, func(t *testing.T) {
			sample(t, 3, i+2)
			t.Parallel()
			ours := startGateway(t).newSession()
			argv := node(ours.dir, "serve", "daemon", "setsid")
			ours.spawn(setup{flags: polite("--cgroup=" + cgroup)}, argv...)
			theirs := startGateway(t).newSession()
			theirs.spawn(setup{bare: true}, argv...)
			ours.waitReady()
			theirs.waitReady()
			e.end(ours)
			ours.gone()
			ours.endedWhole(e.causes...)
			if !theirs.whole(3) {
				t.Errorf("a stranger was touched: %v", theirs.members())
			}
		})
	}
}

// whole tells whether the server answers, and that many processes hold the lifeline. Members that hold the lock in
// its place count as one.
func (s *session) whole(members int) bool {
	s.t.Helper()
	if !strings.Contains(s.ask(`{"id":7,"method":"ping"}`), `"id":7`) {
		return false
	}
	return len(s.members()) == members && held(s.flock) == s.locks()
}

// locks tells whether the tree has members that hold the lock.
func (s *session) locks() bool {
	return strings.Contains(describe(s.server).args, "closefds")
}
