package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/stage"
)

// What a session has once kept stays also if its supervisor is killed: the record tells the anchor. The process that
// matches the pattern has ended by then, so nothing else shows that its child is to be kept. Seen to fail where the
// supervisor alone knew.
func TestKeepOutlastsTheSupervisor(t *testing.T) {
	t.Parallel()
	const helper = "daemon,closefds,comm=shared-helper/setsid,closefds,comm=other"
	for _, cgroup := range []string{"auto", "off"} {
		t.Run("ending/cgroup="+cgroup, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{Flags: []string{"--keep=shared-*", "--term-grace=1h", "--cgroup=" + cgroup}}, "serve", helper, "ignore-term")
			all := stage.Holders(s.Flock)
			resists := slices.DeleteFunc(s.Members(), func(p proc) bool {
				return !strings.HasSuffix(p.Args, " ignore-term") || strings.Contains(p.Args, " serve ")
			})
			s.Signal(syscall.SIGTERM)
			s.until("ending", func() bool { return s.sleeper().State == "ending" })
			s.wantOrphanKept(all, resists)
		})
	}
}

// wantOrphanKept ends the process that matches the pattern, then the supervisor, then what holds up the session's end. The
// child of the first one must outlive all that.
func (s *session) wantOrphanKept(all, last []proc) {
	t := s.t
	t.Helper()
	top := slices.IndexFunc(all, func(p proc) bool { return strings.Contains(p.Args, "comm=shared-helper") })
	if len(all) != 2 || top < 0 {
		t.Fatalf("%v is to be kept", all)
	}
	for _, pid := range []int{all[top].PID, s.Supervisor()} {
		s.ok(syscall.Kill(pid, syscall.SIGKILL))
		stage.AwaitExit(t, pid)
	}
	for _, p := range last {
		s.ok(syscall.Kill(p.PID, syscall.SIGKILL))
	}
	s.Wait()
	if child := all[1-top]; !lives(child) {
		t.Errorf("%v was ended", child)
	}
	s.EndedWhole("supervisor-gone")
	s.EndAll()
	s.NothingLeft()
}
