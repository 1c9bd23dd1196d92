package supervise

import (
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

// goneLeaf is a session, and a leaf of it that is gone.
func goneLeaf(t *testing.T) (*Session, *cgroup.Leaf) {
	t.Helper()
	testkit.Need(t, testkit.Cgroup)
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

// The leaf of the last letter may be gone. Each look at it would fail.
func TestRecoveryTakesNoLeafThatIsGone(t *testing.T) {
	s, old := goneLeaf(t)
	tr := s.newTree()
	tr.findLeaf(&letter{leaf: old})
	if tr.scope.Leaf != nil {
		t.Errorf("it takes %s", tr.scope.Leaf.Dir)
	}
}
