package teardown

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
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
func TestAsk(t *testing.T) {
	s := own(t)
	nest, daemon, stopped := start(t, "nest", 2), start(t, "daemon", 1), start(t, "stopped", 1)
	awaitExit(t, daemon.PID)
	awaitStop(t, stopped.PID)
	k := s.Killer(0)
	sent, _ := k.Ask()
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

// awaitStop waits until a child is stopped, which the kernel reports to its parent.
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
	k := s.Killer(0)
	_, _ = k.Ask()
	if sent, _ := k.Kill(); !slices.Equal(signalled(sent), stubborn.PIDs) {
		t.Errorf("reached %v, want %v", signalled(sent), stubborn.PIDs)
	}
	awaitExit(t, stubborn.PID) // the lifeline ends a moment before the process does
	s.expect(t, "afterwards", nil, kept.PIDs)
}

func TestKillLeaf(t *testing.T) {
	l := leaf(t, "kill")
	// No subreaper: only the leaf knows the daemon.
	s := &Membership{Root: os.Getpid(), Leaf: l}
	inside, kept := start(t, "daemon", 1), start(t, "rest", 1, KeepMark)
	awaitExit(t, inside.PID)
	enter(t, l, inside.PIDs[0])
	enter(t, l, kept.PID)
	// With something to keep in it, the leaf must not be killed as a whole.
	k := s.Killer(0)
	_, _ = k.Kill()
	awaitExit(t, inside.PIDs[0])
	s.expect(t, "one is kept", nil, kept.PIDs)
	kept.Stdin.Close()
	kept.Dead()
	again := start(t, "daemon", 1)
	awaitExit(t, again.PID)
	enter(t, l, again.PIDs[0])
	_, _ = k.Kill()
	again.Dead()
}

// generations is how many families are on the run at once.
const generations = 3

// stop against a family that never stands still. After the sweep no process moves any more, so the list of members
// is complete and stays what it is. On a busy machine one sweep may run out of its time, and the supervisor makes
// another.
func TestStopReachesFixedPoint(t *testing.T) {
	s := own(t)
	var runs []*testkit.Kin
	for range generations {
		runs = append(runs, start(t, "generation", 0))
	}
	const sweeps = 20
	for n := 1; !s.standsStill(t); n++ {
		if n == sweeps {
			t.Fatalf("the families move on after %d sweeps", sweeps)
		}
	}
	s.killUntilEmpty(t)
	for _, k := range runs {
		k.Dead()
	}
}

// standsStill stops all members, and reports whether 50 looks find no other.
func (m *Membership) standsStill(t *testing.T) bool {
	t.Helper()
	members, _, err := m.Members()
	if err != nil {
		t.Fatal(err)
	}
	k := m.Killer(0)
	members, _ = k.stop(members, nil)
	stopped := living(members)
	if len(stopped) == 0 {
		t.Fatal("the families ended before they were stopped")
	}
	for range 50 {
		now, _, err := m.Members()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range now {
			if !slices.Contains(stopped, p.ID) {
				t.Logf("%+v was not among the stopped %v", p, stopped)
				return false
			}
		}
	}
	return true
}

func living(list []proc.Stat) []proc.ID {
	var out []proc.ID
	for _, p := range list {
		out = append(out, p.ID)
	}
	return out
}

// killUntilEmpty repeats the last step as the supervisor does.
func (m *Membership) killUntilEmpty(t *testing.T) {
	t.Helper()
	const rounds = 10_000
	k := m.Killer(0)
	for range rounds {
		_, _ = k.Kill()
		if !reapAll(t) {
			return
		}
	}
	t.Fatalf("not empty after %d rounds", rounds)
}

// A member may execute a program that is to be kept, between the look that found it and its stop. It is not killed, and
// goes on.
func TestStopContinuesWhatIsKeptSince(t *testing.T) {
	s := own(t)
	k := start(t, "heir", 1)
	members, _, err := s.Members()
	if err != nil || !slices.Equal(pids(members), k.PIDs) {
		t.Fatalf("before: %v, %v", pids(members), err)
	}
	if err := unix.Kill(k.PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if heir := k.Await(); heir != k.PID {
		t.Fatalf("the heir is %d, want %d", heir, k.PID)
	}
	killer := s.Killer(0)
	if members, _ = killer.stop(members, nil); len(members) > 0 {
		t.Errorf("%v are to be killed", pids(members))
	}
	// A stopped process would not read the end of its input.
	k.Stdin.Close()
	k.Dead()
}

// What cannot be listed for a moment is asked later, and not twice.
func TestAskAgain(t *testing.T) {
	s := own(t)
	server := start(t, "stubborn", 1)
	k := s.Killer(0)
	testkit.WithFiles(t, 0, func() {
		if sent, err := k.Ask(); len(sent) > 0 || !proc.Starved(err) {
			t.Errorf("asked %+v, %v", sent, err)
		}
	})
	for _, want := range [][]int{server.PIDs, {}, {}} {
		if sent, err := k.Ask(); !slices.Equal(signalled(sent), want) || err != nil {
			t.Errorf("asked %v, %v, want %v", signalled(sent), err, want)
		}
	}
}

func TestSurvivors(t *testing.T) {
	s := own(t)
	k := start(t, "rest", 1)
	members, _, err := s.Members()
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	of := func(lists ...[]proc.Stat) []Survivor {
		looks = 0
		killer := Killer{Members: func() (end, kept []proc.Stat, err error) {
			looks++
			return lists[min(looks, len(lists))-1], nil, nil
		}}
		got, _, _ := killer.Survivors()
		return got
	}
	if got := of(nil); got == nil || len(got) != 0 || looks != 1 {
		t.Errorf("of none: %#v after %d looks, want an empty list for the log", got, looks)
	}
	got := of(members)
	if len(got) != 1 || got[0].PID != k.PID || got[0].UID != os.Getuid() || got[0].Comm == "" || got[0].Why == "" {
		t.Errorf("%+v", got)
	}
	// It has ended since the look, and nothing is left: it is no survivor.
	awaitExit(t, k.PID)
	if got := of(members, nil); len(got) != 0 || looks != 2 {
		t.Errorf("%+v after %d looks, of a process that has ended", got, looks)
	}
	// What it had started meanwhile is a survivor.
	heir := start(t, "rest", 1)
	st, err := s.reader.Stat(heir.PID)
	if err != nil {
		t.Fatal(err)
	}
	if got := of(members, []proc.Stat{st}); len(got) != 1 || got[0].PID != heir.PID {
		t.Errorf("%+v, want the heir %d", got, heir.PID)
	}
	// And a tree goes on forking if each look finds another process that has ended as well.
	if got := of(members); len(got) != 1 || looks != lastLooks {
		t.Errorf("%+v after %d looks, of a tree that forks", got, looks)
	}
}
