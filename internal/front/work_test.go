package front

import (
	"os"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/session"
)

// A container that was made since the server was met keeps it awake, whatever has become of it. One from before may be the server.
func TestContained(t *testing.T) {
	f := &front{}
	f.back.seen.met = time.Now()
	for _, made := range []struct {
		at   time.Time
		want string
	}{{time.Time{}, ""}, {f.back.seen.met.Add(-time.Second), ""}, {f.back.seen.met.Add(time.Second), "a container was made"}} {
		if why := f.contained(&session.Record{ContainerAt: made.at}); why != made.want {
			t.Errorf("%v: %q, want %q", made.at, why, made.want)
		}
	}
}

// The processes of a tree are told from those of our own by their program.
func TestTree(t *testing.T) {
	f := &front{}
	before, err := f.tree()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Kill(); _, _ = p.Wait() }()
	testkit.Until(t, "a member", func() bool {
		after, err := f.tree()
		return err == nil && len(after.members) == len(before.members)+1 && after.known[p.Pid]
	})
}
