package supervise

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
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
			Version: session.Version, ID: last.id, UID: os.Getuid(), State: session.StateEnding, Relations: session.Relations{Key: "k"},
			Processes: session.Processes{Supervisor: last.identity(cmd.Process.Pid), Anchor: last.identity(os.Getpid())},
		}
		if err := last.lease.Write(r); err != nil {
			t.Fatal(err)
		}
		next := &common{onDisk: onDisk{lease: last.lease}}
		next.opts.Key = "k"
		want := r.Supervisor
		if dead {
			want = r.Anchor
		}
		if owner, of := next.predecessor(); of == nil || of.ID != r.ID || owner != want {
			t.Errorf("dead: %t: waits for %v of %+v; want %v", dead, owner, of, want)
		}
		in.Close()
		_ = cmd.Wait()
	}
}

// A session that has an engine may take longer to end: as long as the removal of its containers may take.
func TestPredecessorHasTimeForItsContainers(t *testing.T) {
	o := Defaults()
	plain := o.Grace.EOF + o.Grace.Term + o.Grace.Kill + time.Second
	if got := o.longestPredecessor(&session.Record{}); got != plain {
		t.Errorf("without an engine: %v, want %v", got, plain)
	}
	if got, want := o.longestPredecessor(&session.Record{Containers: session.Containers{EngineUsed: true}}), plain+o.longestRemoval(); got != want {
		t.Errorf("with an engine: %v, want %v", got, want)
	}
	if got, want := o.LongestEnd()+time.Second, plain+o.longestRemoval(); got != want {
		t.Errorf("a host allows for %v, want %v", got, want)
	}
	o.Containers = ContainersOff
	if got := o.LongestEnd() + time.Second; got != plain {
		t.Errorf("a host without containers allows for %v, want %v", got, plain)
	}
}

// A session behind a front waits for an earlier one behind the same front, which has lost its anchor, whatever its record says. It
// does not wait for the front, nor for what is behind another one.
func TestSessionBehindAFrontWaitsForTheLast(t *testing.T) {
	last := recorded(t)
	r := session.Record{Version: session.Version, ID: last.id, UID: os.Getuid(), State: session.StateRunning, Processes: session.Processes{Supervisor: last.identity(os.Getpid())}}
	for name, c := range map[string]struct {
		behind, own string
		waits       bool
	}{
		"the same front":  {"0123456789abcdef", "0123456789abcdef", true},
		"another front":   {"0123456789abcdef", "fedcba9876543210", false},
		"its own front":   {"", last.id, false},
		"without a front": {"", "", false},
	} {
		r.Behind = c.behind
		r.Share, r.Key = "place", "key"
		if err := last.lease.Write(r); err != nil {
			t.Fatal(err)
		}
		next := &common{onDisk: onDisk{lease: last.lease}}
		next.opts.Behind = c.own
		if name == "its own front" {
			next.opts.Share, next.opts.Key = "place", "key"
		}
		if _, of := next.predecessor(); (of != nil) != c.waits {
			t.Errorf("%s: waits for %+v", name, of)
		}
	}
}

// The record of a front that was killed goes with the session behind it. A living one keeps its own.
func TestRecordOfAKilledFrontGoes(t *testing.T) {
	for _, killed := range []bool{true, false} {
		front, s := recorded(t), recorded(t)
		dir := front.lease.Dir()
		var err error
		if s.lease, err = dir.Take(s.id); err != nil {
			t.Fatal(err)
		}
		if err := front.lease.Write(session.Record{Version: session.Version, ID: front.id, UID: os.Getuid()}); err != nil {
			t.Fatal(err)
		}
		if killed {
			front.lease.Release()
		}
		s.opts.Behind = front.id
		s.removeFront()
		if _, err := dir.Read(front.id); (err != nil) != killed {
			t.Errorf("killed %t: %v", killed, err)
		}
	}
}
