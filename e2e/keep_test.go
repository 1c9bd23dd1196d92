//go:build linux

package e2e

import (
	"testing"
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
					flags := append(quick("--cgroup="+cgroup), k.flags...)
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

// What is not marked is not kept, even beside a pattern that matches nothing.
func TestKeepNothing(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: quick("--keep=shared-*")}, "serve", "daemon,closefds", "daemon,comm=other-helper")
	s.gw.kill()
	s.gone()
	if c := s.ended(); len(c.Kept) > 0 {
		t.Errorf("kept = %v", c.Kept)
	}
}
