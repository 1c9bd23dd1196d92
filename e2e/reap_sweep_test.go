package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A host without cron heals when the next session starts.

// The new session sweeps what its user's dead sessions have left, soon after its start. It touches no other user's
// session, and no living one.
func TestRunSweeps(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for user, cgroup := range map[int]string{0: "auto", nobody: "off"} {
		t.Run("cgroup="+cgroup+"/uid="+strconv.Itoa(user), func(t *testing.T) {
			g := startGatewayAs(t, user)
			var dead []*session
			for range 2 {
				dead = append(dead, recordedTree(g, cgroup))
			}
			live := recordedTree(g, cgroup)
			other := recordedTree(startGatewayAs(t, nobody-user), cgroup)
			for _, s := range append(dead, other) {
				killPair(t, s.PID)
			}
			fresh := recordedTree(g, cgroup)
			for _, s := range dead {
				s.WaitDead()
			}
			waitNoRecord(t, dead)
			// The process that has swept may hold what it has inherited for another moment.
			testkit.Until(t, "the living sessions to be whole", func() bool { return live.whole(5) && fresh.whole(5) })
			if !other.Alive() {
				t.Error("another user's session was swept")
			}
			if r := operator.reap(t, 0, "--kill"); r.classes() != "record" {
				t.Errorf("afterwards found %v, want the other user's session", r.Findings)
			}
			other.WaitDead()
			endNicely(g, live, fresh)
			fresh.swept()
		})
	}
}

func recordedTree(g *gateway, cgroup string) *session {
	g.t.Helper()
	s := g.newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: polite("--cgroup=" + cgroup)}, node(s.Dir, "serve", "daemon", "setsid")...)
	s.WaitReady()
	s.IDs = []string{s.ownRecord()}
	return s
}

// waitNoRecord returns when the records of swept sessions are gone. They go after the last process.
func waitNoRecord(t *testing.T, all []*session) {
	t.Helper()
	for _, s := range all {
		awaitGone(t, filepath.Join(s.recordDir(), s.ID()+".json"))
	}
}

// The sweep is not on the path of the server's start: a dead session with a stubborn member holds up nothing.
func TestSweepDoesNotDelayStart(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	g := startGateway(t)
	dead := g.newSession()
	dead.shareRuntime()
	dead.Spawn(setup{Flags: resisting()}, node(dead.Dir, "serve,ignore-term", "daemon,ignore-term", "daemon,closefds")...)
	dead.WaitReady()
	dead.IDs = []string{dead.ownRecord()}
	killPair(t, dead.PID)
	fresh := g.newSession()
	fresh.shareRuntime()
	fresh.Spawn(setup{}, node(fresh.Dir, "serve")...)
	fresh.WaitReady()
	if !dead.Alive() {
		t.Error("the dead session was ended before the new server was up")
	}
	// The member that obeys is gone: the sweep has begun. An end amid the sweep is held up by nothing either. The sweep is
	// stopped, or it might be over before the session is.
	sweeper := fresh.sweeper()
	ok(t, stage.WaitFree(dead.Flock, testkit.Patience))
	freeze(t, sweeper)
	if !dead.Alive() {
		t.Fatal("the sweep was over before it was stopped")
	}
	fresh.closeStdin()
	fresh.WaitDead()
	if !dead.Alive() {
		t.Error("the session waited for its sweep")
	}
	operator.reap(t, 0, "--kill")
	dead.swept()
}

// sweeper waits for the sweep that a session makes, and returns its pid.
func (s *session) sweeper() (pid int) {
	s.t.Helper()
	supervisor := s.below(s.PID)
	testkit.Until(s.t, "a sweep", func() bool {
		for _, pid = range childrenOf(supervisor) {
			if stage.Describe(pid).Says("\x00__sweep\x00") {
				return true
			}
		}
		return false
	})
	return pid
}

// awaitGone returns when there is no such file.
func awaitGone(t *testing.T, file string) {
	t.Helper()
	testkit.Until(t, file+" is gone", func() bool {
		_, err := os.Lstat(file)
		return errors.Is(err, os.ErrNotExist)
	})
}
