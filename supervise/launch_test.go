package supervise

import (
	"os"
	"strconv"
	"testing"
	"time"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// What a kept process has started in the leaf since it was listed, while containers were removed, is moved out as well. Or it would
// be found there without what it is kept for.
func TestLeafIsRemovedThoughTheKeptGoOn(t *testing.T) {
	testkit.Need(t, testkit.Cgroup)
	s := &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	s.opts = Options{Cgroup: CgroupRequire, Containers: ContainersOff, Keep: []string{"sh"}}
	if err := s.newTree().contain(); err != nil {
		t.Fatal(err)
	}
	pid, launch, end := testkit.Keeper(t, s.tree.scope.Leaf.FD())
	var r proc.Reader
	kept, err := r.Stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	child := launch()
	leaf := s.tree.removeLeaf([]proc.Stat{kept})
	if st, err := r.Stat(child); err != nil || st.Dead() {
		t.Errorf("the child has ended: %v", err)
	}
	end()
	if leaf != nil {
		t.Errorf("left: %s, %v", leaf.Dir, leaf.RemoveSoon(removeTries))
	}
}

// The leaf of a session that a process to keep has started stays, and so does this one: its record says that it is over.
func TestLeafStaysForTheSessionOfTheKept(t *testing.T) {
	testkit.Need(t, testkit.Cgroup)
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	s := &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	if s.lease, err = dir.Take(s.hand.ID); err != nil {
		t.Fatal(err)
	}
	s.opts = Options{Cgroup: CgroupRequire, Containers: ContainersOff, Keep: []string{"sh"}}
	if err := s.newTree().contain(); err != nil {
		t.Fatal(err)
	}
	outer := s.tree.scope.Leaf.Dir
	inner, err := cgroup.Create(outer, leafName("fedcba9876543210"))
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	_, launch, end := testkit.Keeper(t, s.tree.scope.Leaf.FD())
	child := launch()
	t.Cleanup(func() {
		end()
		if leaf, err := cgroup.Open(outer); err == nil {
			_ = leaf.RemoveSoon(int(testkit.Patience / time.Millisecond))
			leaf.Close()
		}
	})
	if err := os.WriteFile(inner.Dir+"/cgroup.procs", []byte(strconv.Itoa(child)), 0); err != nil {
		t.Fatal(err)
	}
	s.finish()
	if !inner.Has(child) {
		t.Error("it was moved out of the leaf of its session")
	}
	if r, err := dir.Read(s.hand.ID); err != nil || r.State != session.StateKept || r.Cgroup != outer {
		t.Errorf("its record: %q, %q, %v", r.State, r.Cgroup, err)
	}
}
