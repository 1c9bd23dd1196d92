package front

import (
	"os"
	"testing"
	"time"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
	"mcp-tether/internal/testkit"
)

// A container that was made since the server was met keeps it awake, whatever has become of it. One from before may be the server.
func TestContained(t *testing.T) {
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	r := &session.Record{ID: session.NewID()}
	f := &front{}
	f.back.seen.met = time.Now()
	j := dir.Journal(r.ID)
	defer j.Close()
	for _, made := range []struct {
		at   time.Duration
		want string
	}{{-time.Second, ""}, {time.Second, "container it was made"}} {
		if err := j.Note(engine.Note{Op: engine.OpCreated, Kind: engine.Container, ID: "a", Name: "it", At: f.back.seen.met.Add(made.at)}); err != nil {
			t.Fatal(err)
		}
		if why := f.contained(dir, r); why != made.want {
			t.Errorf("%q, want %q", why, made.want)
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
