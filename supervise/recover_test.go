package supervise

import (
	"errors"
	"os"
	"testing"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// A letter may have been lost, so that the last one tells of an earlier server. The record tells of the present one.
func TestRecoveryFindsTheServerBehindAnOldLetter(t *testing.T) {
	c := &common{}
	c.record.Server = c.identity(startChild(t))
	old := c.record.Server
	old.Start--
	for name, l := range map[string]*letter{"none": nil, "no server": {}, "an old one": {server: old}, "the same": {server: c.record.Server}} {
		tr := &tree{common: c}
		if tr.findServer(l); tr.server != c.record.Server.PID || tr.server == 0 {
			t.Errorf("%s: found %d, want %d", name, tr.server, c.record.Server.PID)
		}
	}
	c.record.Server = proc.ID{}
	tr := &tree{common: c}
	if tr.findServer(&letter{server: old}); tr.server != 0 {
		t.Errorf("found %d, which is another process", tr.server)
	}
}

// goneLeaf is a session, and the leaf of an earlier server of it, which is gone.
func goneLeaf(t *testing.T) (*Session, *cgroup.Leaf) {
	t.Helper()
	_, err := testkit.WritableCgroup()
	testkit.Need(t, err == nil, "a cgroup v2 hierarchy that can be written")
	s := &Session{}
	s.hand.ID, s.hand.Mailbox = session.NewID(), -1
	s.opts = Options{Cgroup: CgroupRequire, Containers: ContainersOff}
	if err := s.newTree().contain(); err != nil {
		t.Fatal(err)
	}
	leaf := s.tree.scope.Leaf
	if err := os.Remove(leaf.Dir); err != nil {
		t.Fatal(err)
	}
	return s, leaf
}

// The leaf of an earlier server is gone, and that of the present one has its name. Seen to stay where the letter was
// believed.
func TestRecoveryFindsTheLeafBehindAnOldLetter(t *testing.T) {
	s, old := goneLeaf(t)
	dir := old.Dir
	if err := s.newTree().contain(); err != nil {
		t.Fatal(err)
	}
	s.tree.scope.Leaf.Close()
	tr := s.newTree()
	tr.findLeaf(&letter{leaf: old})
	if left := tr.removeLeaf(nil); left != nil {
		left.Close()
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v, %v", dir, err, os.Remove(dir))
	}
}

// A server that sleeps has no leaf, though the letter that says so was lost. Each look at the one that is gone would fail.
func TestRecoveryTakesNoLeafThatIsGone(t *testing.T) {
	s, old := goneLeaf(t)
	tr := s.newTree()
	tr.findLeaf(&letter{leaf: old})
	if tr.scope.Leaf != nil {
		t.Errorf("it takes %s", tr.scope.Leaf.Dir)
	}
}
