package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// The longest that a stuck supervisor may keep its session: the graces of these tests, and the margin.
const (
	stuckGraces = 3300 * time.Millisecond
	stuckMargin = 5 * time.Second
)

// Members that keep whoever reads their memory waiting for ever. Nothing here may read it either.

// hungTree starts a tree on the host of its own, with a file system that does not answer for each member that needs one.
func hungTree(t *testing.T, flags []string, children ...string) *session {
	t.Helper()
	s := startGateway(t).newSession()
	for n := 1; strings.Contains(strings.Join(children, " "), fmt.Sprintf("=%d", n)); n++ {
		mountHung(t, filepath.Join(s.Dir, fmt.Sprintf("hung-%d", n)), false)
	}
	s.Spawn(setup{Flags: flags}, node(s.Dir, "serve,ignore-eof", children...)...)
	s.WaitReady()
	stuck := strings.Count(strings.Join(children, " "), "stuck=")
	testkit.Until(t, "members that are stuck", func() bool { return blocked() >= stuck })
	return s
}

// blocked counts the processes of this host that have a thread in state D.
func blocked() int {
	return len(slices.DeleteFunc(stage.PIDs(), func(pid int) bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return !slices.ContainsFunc(threads, func(file string) bool {
			b, _ := os.ReadFile(file)
			_, rest, _ := strings.Cut(string(b), ") ")
			return strings.HasPrefix(rest, "D")
		})
	}))
}

func TestStuckMembersHoldNothingBack(t *testing.T) {
	testkit.Long(t)
	for name, children := range map[string][]string{
		"one":     {"stuck=1", "setsid,closefds", "daemon,clearenv"},
		"several": {"stuck=1", "setsid,stuck=2", "stuck=3", "setsid,closefds", "daemon"},
	} {
		for _, alone := range [][]string{nil} {
			for _, cgroup := range []string{"auto", "off"} {
				for cause, e := range map[string]ending{"gateway-gone": stuckEnds[0], "signal": stuckEnds[1]} {
					t.Run(fmt.Sprintf("%s%s/%s/cgroup=%s", name, strings.Join(alone, ""), e.name, cgroup), func(t *testing.T) {
						t.Parallel()
						if !onOwnHostAlone(t) {
							return
						}
						flags := append([]string{"--term-grace=500ms", "--containers=off", "--cgroup=" + cgroup}, alone...)
						s := hungTree(t, flags, children...)
						began := time.Now()
						e.end(s)
						s.WaitDead()
						took := time.Since(began)
						s.Gone()
						s.EndedWhole(cause)
						if limit := stuckGraces + stuckMargin + 20*time.Second; took > limit { // the machine may be busy
							t.Errorf("it took %v, want at most %v", took, limit)
						}
					})
				}
			}
		}
	}
}

// A member that can be read, and is to be kept, is kept beside one that cannot.
func TestStuckMemberBesideKeptOne(t *testing.T) {
	testkit.Long(t)
	for _, cgroup := range []string{"auto", "off"} {
		t.Run("cgroup="+cgroup, func(t *testing.T) {
			t.Parallel()
			if !onOwnHostAlone(t) {
				return
			}
			flags := []string{"--term-grace=1s", "--containers=off", "--cgroup=" + cgroup}
			s := hungTree(t, flags, "stuck=1", "setsid,keep,closefds", "daemon")
			s.Signal(syscall.SIGTERM)
			s.endedBut("signal")
		})
	}
}

// endedBut waits for the end of a session, and expects that its one process to keep is all that is left.
func (s *session) endedBut(cause string) {
	s.t.Helper()
	if err := s.Life.Wait(testkit.Patience); err != nil {
		s.t.Fatalf("still alive: %v", err)
	}
	stage.AwaitExit(s.t, s.PID)
	if !stage.Held(s.Flock) {
		s.t.Error("the process to keep has ended")
	}
	if c := s.EndedWhole(cause); len(c.Kept) != 1 {
		s.t.Errorf("%+v", c)
	}
}
