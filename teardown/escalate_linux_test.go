package teardown

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
	"mcp-tether/proc"
)

func signalled(sent []Sent) []int {
	out := []int{}
	for _, x := range sent {
		if x.Err == nil {
			out = append(out, x.To.PID)
		}
	}
	slices.Sort(out)
	return out
}

func sorted(pids ...int) []int {
	out := slices.Clone(pids)
	slices.Sort(out)
	return out
}

// SIGTERM goes to each member, and a stopped one is woken to take it.
func TestTerminate(t *testing.T) {
	s := own(t)
	nest, daemon, stopped := start(t, "nest", 2), start(t, "daemon", 1), start(t, "stopped", 1)
	awaitExit(t, daemon.PID)
	awaitStop(t, stopped.PID)
	sent := s.Terminate(0)
	if got, want := signalled(sent), sorted(slices.Concat(nest.PIDs, daemon.PIDs, stopped.PIDs)...); !slices.Equal(got, want) {
		t.Errorf("reached %v, want %v", got, want)
	}
	for _, x := range sent {
		if x.Sig != syscall.SIGTERM || x.Err != nil {
			t.Errorf("%+v", x)
		}
	}
	for _, k := range []*testkit.Kin{nest, daemon, stopped} {
		k.Dead()
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(stopped.PID, &ws, 0, nil); err != nil || ws.Signal() != unix.SIGTERM {
		t.Errorf("the stopped one: %#x, %v", ws, err)
	}
}

// awaitStop waits until a child is stopped, which its parent is told of.
func awaitStop(t *testing.T, pid int) {
	t.Helper()
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("wait for the stop of %d: %#x, %v", pid, ws, err)
	}
}

func TestKillSparesKept(t *testing.T) {
	s := own(t)
	kept, stubborn := start(t, "nest", 2, KeepMark), start(t, "stubborn", 1)
	s.Terminate(stubborn.PID)
	if got := signalled(s.Kill(stubborn.PID)); !slices.Equal(got, stubborn.PIDs) {
		t.Errorf("reached %v, want %v", got, stubborn.PIDs)
	}
	awaitExit(t, stubborn.PID) // the lifeline ends a moment before the process does
	s.expect(t, "afterwards", nil, kept.PIDs)
}

func TestKillLeaf(t *testing.T) {
	l := leaf(t, "mcp-tether-test-kill")
	// No subreaper: only the leaf knows the daemon.
	s := &Scope{Root: os.Getpid(), Leaf: l}
	inside, kept := start(t, "daemon", 1), start(t, "rest", 1, KeepMark)
	awaitExit(t, inside.PID)
	enter(t, l, inside.PIDs[0])
	enter(t, l, kept.PID)
	// With something to keep in it, the leaf must not be killed as a whole.
	s.Kill(0)
	awaitExit(t, inside.PIDs[0])
	s.expect(t, "one is kept", nil, kept.PIDs)
	kept.Stdin.Close()
	kept.Dead()
	again := start(t, "daemon", 1)
	awaitExit(t, again.PID)
	enter(t, l, again.PIDs[0])
	s.Kill(0)
	again.Dead()
}

// generations is how many families are on the run at once.
const generations = 3

// Against a family that never stands still: after the sweep nobody moves any more, so the list of members is complete
// and stays what it is.
func TestStopAllReachesFixedPoint(t *testing.T) {
	s := own(t)
	var runs []*testkit.Kin
	for range generations {
		runs = append(runs, start(t, "generation", 0))
	}
	members, _, err := s.Members()
	if err != nil {
		t.Fatal(err)
	}
	stopped := living(s.stopAll(members))
	if len(stopped) == 0 {
		t.Fatal("the families ended before they were stopped")
	}
	for range 50 {
		now, _, err := s.Members()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range now {
			if !slices.Contains(stopped, p.ID) {
				t.Fatalf("%+v was not among the stopped %v", p, stopped)
			}
		}
	}
	s.killUntilEmpty(t)
	for _, k := range runs {
		k.Dead()
	}
}

func living(list []proc.Stat) []proc.ID {
	var out []proc.ID
	for _, p := range list {
		out = append(out, p.ID)
	}
	return out
}

// killUntilEmpty repeats the last step as the supervisor does.
func (s *Scope) killUntilEmpty(t *testing.T) {
	t.Helper()
	const rounds = 10_000
	for range rounds {
		s.Kill(0)
		if !reapAll(t) {
			return
		}
	}
	t.Fatalf("not empty after %d rounds", rounds)
}

func TestKillEndsFamilyOnTheRun(t *testing.T) {
	s := own(t)
	var runs []*testkit.Kin
	for range generations {
		runs = append(runs, start(t, "generation", 0))
	}
	s.killUntilEmpty(t)
	for _, k := range runs {
		k.Dead()
	}
}

// With nothing to be listed, the server and its group are reached by what is certain: it is a child not yet waited for.
func TestBlind(t *testing.T) {
	s := own(t)
	k := start(t, "nest", 2)
	for _, x := range (&Scope{}).blind(k.PID, syscall.SIGTERM, syscall.SIGCONT) {
		if x.To.PID != k.PID || x.Err != nil {
			t.Errorf("%+v", x)
		}
	}
	awaitExit(t, k.PID)
	// It leads no group: its child is in that of the test, which nothing may reach.
	reapAll(t)
	s.expect(t, "its child", without(k.PIDs, k.PID), nil)
}

func TestSurvivors(t *testing.T) {
	s := own(t)
	k := start(t, "rest", 1)
	members, _, err := s.Members()
	if err != nil {
		t.Fatal(err)
	}
	got := s.Survivors(members)
	if len(got) != 1 || got[0].PID != k.PID || got[0].UID != os.Getuid() || got[0].Comm == "" || got[0].Why == "" {
		t.Errorf("%+v", got)
	}
	if got := s.Survivors(nil); got == nil || len(got) != 0 {
		t.Errorf("of none: %#v, want an empty list for the log", got)
	}
}
