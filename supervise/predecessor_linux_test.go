package supervise

import (
	"os"
	"os/exec"
	"testing"

	"mcp-tether/internal/testkit"
	"mcp-tether/proc"
	"mcp-tether/session"
)

// A supervisor that was killed while it was traced is a zombie, and its anchor ends the session. The next session of
// the key waits for the anchor: a wait for the zombie would be over at once, again and again.
func TestPredecessorIsNoZombie(t *testing.T) {
	for _, dead := range []bool{true, false} {
		last := recorded(t)
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if dead {
			in.Close()
			testkit.Until(t, "the end of the supervisor", func() bool {
				ended, err := proc.HasExited(cmd.Process.Pid)
				return ended && err == nil
			})
		}
		r := session.Record{
			Version: session.Version, ID: last.hand.ID, UID: os.Getuid(), State: session.StateEnding, Key: "k",
			Supervisor: last.identity(cmd.Process.Pid), Anchor: last.identity(os.Getpid()),
		}
		if err := last.lease.Write(r); err != nil {
			t.Fatal(err)
		}
		next := &common{opts: Options{Key: "k"}, lease: last.lease}
		want := r.Supervisor
		if dead {
			want = r.Anchor
		}
		if owner, found := next.predecessor(); !found || owner != want {
			t.Errorf("dead: %t: waits for %v, %t; want %v", dead, owner, found, want)
		}
		in.Close()
		_ = cmd.Wait()
	}
}
