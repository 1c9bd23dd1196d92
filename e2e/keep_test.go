package e2e

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// A descendant that is meant to outlive the session is left alone, and the log says so. It closes the lifeline, so that
// its end of file tells of all others.
func TestKeep(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name, child string
		flags       []string
	}{
		{"by mark", "daemon,closefds,keep", nil},
		{"by mark, setsid", "setsid,closefds,keep", nil},
		{"by pattern", "daemon,closefds,comm=shared-helper", []string{"--keep=nothing", "--keep=shared-*"}},
	}
	for i, k := range kinds {
		for j, cgroup := range []string{"auto", "off"} {
			for l, e := range endings {
				t.Run(k.name+"/cgroup="+cgroup+"/"+e.name, func(t *testing.T) {
					sample(t, 3, i, j, l)
					t.Parallel()
					flags := append(resisting("--cgroup="+cgroup), k.flags...)
					s := begin(t, setup{flags: flags}, "serve", k.child, "setsid", "daemon,ignore-term")
					kept := holders(s.flock)
					e.end(s)
					s.wantKept(kept, e)
				})
			}
		}
	}
}

func (s *session) wantKept(kept []proc, e ending) {
	t := s.t
	t.Helper()
	if err := s.waitUnlocked(); err != nil {
		t.Fatalf("others are alive: %v", err)
	}
	if !held(s.flock) || len(kept) != 1 {
		t.Fatalf("the process to keep is gone (there were %v)", kept)
	}
	c := s.endedWhole(e.causes...)
	if len(c.Kept) != 1 || c.Kept[0] != kept[0].pid {
		t.Errorf("the log says kept = %v, want %v", c.Kept, kept)
	}
	s.endAll()
	s.nothingLeft()
}

// A user's mark counts in that user's sessions only: not that of another user's process, nor what another user has told a
// set-user-ID program. The control beside them is kept.
func TestKeepIsTheUsersWord(t *testing.T) {
	testkit.Need(t, os.Geteuid() == 0, "root")
	for name, child := range map[string]string{"another user": "setsid,uid=65534,keep", "set-user-ID": "setsid,uid=65534/setsid,keep,comm=" + setuidCopy(t)} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, setup{flags: resisting()}, "serve", child, "daemon,closefds,keep")
			kept := holders(s.flock)
			s.signal(syscall.SIGTERM)
			s.wait()
			s.wantKept(kept, ending{causes: []string{"signal"}})
		})
	}
}

// What is not marked is not kept, even beside a pattern that matches nothing.
func TestKeepNothing(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: polite("--keep=shared-*")}, "serve", "daemon,closefds", "daemon,comm=other-helper")
	s.gw.kill()
	s.gone()
	if c := s.ended(); len(c.Kept) > 0 {
		t.Errorf("kept = %v", c.Kept)
	}
}

// What a session has once kept stays also if its supervisor is killed: the record tells the anchor. The process that
// matches the pattern has ended by then, so nothing else shows that its child is to be kept. Seen to fail where the
// supervisor alone knew.
func TestKeepOutlastsTheSupervisor(t *testing.T) {
	t.Parallel()
	const helper = "daemon,closefds,comm=shared-helper/setsid,closefds,comm=other"
	for _, cgroup := range []string{"auto", "off"} {
		t.Run("ending/cgroup="+cgroup, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{flags: []string{"--keep=shared-*", "--term-grace=1h", "--cgroup=" + cgroup}}, "serve", helper, "ignore-term")
			all := holders(s.flock)
			resists := slices.DeleteFunc(s.members(), func(p proc) bool {
				return !strings.HasSuffix(p.args, " ignore-term") || strings.Contains(p.args, " serve ")
			})
			s.signal(syscall.SIGTERM)
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
	top := slices.IndexFunc(all, func(p proc) bool { return strings.Contains(p.args, "comm=shared-helper") })
	if len(all) != 2 || top < 0 {
		t.Fatalf("%v is to be kept", all)
	}
	for _, pid := range []int{all[top].pid, s.supervisor()} {
		s.ok(syscall.Kill(pid, syscall.SIGKILL))
		awaitExit(t, pid)
	}
	for _, p := range last {
		s.ok(syscall.Kill(p.pid, syscall.SIGKILL))
	}
	s.wait()
	if child := all[1-top]; !lives(child) {
		t.Errorf("%v was ended", child)
	}
	s.endedWhole("supervisor-gone")
	s.endAll()
	s.nothingLeft()
}
