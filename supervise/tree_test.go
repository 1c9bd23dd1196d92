package supervise

import (
	"os"
	"os/exec"
	"testing"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/teardown"
)

// startChild starts a child that lives as long as the test.
func startChild(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// A child that was there before the session explains why a child is left. It does not if nothing can be listed: then a
// member may be left as well.
func TestWhatCannotBeListedHasLeaked(t *testing.T) {
	pid := startChild(t)
	c := &common{}
	st, err := c.reader.Stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	left := func() remains {
		tr := &tree{common: c, members: teardown.Membership{Root: os.Getpid(), Foreign: []proc.ID{st.ID}}}
		tr.killer = tr.members.Killer(0)
		return tr.close()
	}
	if r := left(); r.leaked || len(r.survivors) > 0 {
		t.Errorf("the control has leaked: %+v", r)
	}
	testkit.WithFiles(t, 0, func() {
		if !left().leaked {
			t.Error("nothing could be listed, and nothing has leaked")
		}
	})
}

// What was there before the session explains what is left only while it lives. Who cannot be looked at may live.
func TestWhatWasThereExplainsWhileItLives(t *testing.T) {
	pid := startChild(t)
	c := &common{}
	self, err := c.reader.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := self.ID
	gone.Start--
	for name, x := range map[string]struct {
		foreign   []proc.ID
		explained bool
	}{
		"one lives":        {[]proc.ID{gone, self.ID}, true},
		"all have ended":   {[]proc.ID{gone, gone}, false},
		"nothing is known": {[]proc.ID{{}}, true},
	} {
		// The look is at what is below the child, so the child itself is not listed.
		tr := &tree{common: c, members: teardown.Membership{Root: pid, Foreign: x.foreign}}
		if tr.onlyOthers() != x.explained || tr.unseen() == x.explained {
			t.Errorf("%s: only others %t, unseen %t", name, tr.onlyOthers(), tr.unseen())
		}
	}
}
