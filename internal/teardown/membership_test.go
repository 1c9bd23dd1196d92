package teardown

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

func pids(list []proc.Stat) []int {
	out := []int{}
	for _, p := range list {
		out = append(out, p.PID)
	}
	slices.Sort(out)
	return out
}

// expect asks for the members once, and compares.
func (m *Membership) expect(t *testing.T, what string, members, kept []int) {
	t.Helper()
	end, k, err := m.Members()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	slices.Sort(members)
	slices.Sort(kept)
	if !slices.Equal(pids(end), members) || !slices.Equal(pids(k), kept) {
		t.Errorf("%s: members %v, kept %v; want %v, %v", what, pids(end), pids(k), members, kept)
	}
}

func TestMembersFindsDaemons(t *testing.T) {
	s := own(t)
	s.expect(t, "nobody", nil, nil)
	a, b := start(t, "nest", 2), start(t, "daemon", 1)
	awaitExit(t, b.PID)
	s.expect(t, "all", slices.Concat(a.PIDs, b.PIDs), nil)
	b.Stdin.Close()
	awaitExit(t, b.PIDs[0])
	s.expect(t, "without the dead", a.PIDs, nil)
}

func TestKeepMark(t *testing.T) {
	s := own(t)
	marked, other := start(t, "nest", 2, KeepMark), start(t, "rest", 1, KeepMark+"0", "X"+KeepMark)
	s.expect(t, "mark, also for what it started", other.PIDs, marked.PIDs)
	s.Keep = []string{"nothing*"}
	s.expect(t, "with a pattern that matches nothing", other.PIDs, marked.PIDs)
}

// A kept process may end; what it had started stays kept.
func TestKeptChildStaysKeptAsOrphan(t *testing.T) {
	s := own(t)
	k := start(t, "nest", 2, KeepMark)
	s.expect(t, "before", nil, k.PIDs)
	endOnly(t, k.PID)
	s.expect(t, "its parent has ended", nil, without(k.PIDs, k.PID))
}

// endOnly ends and reaps one child of the test; its children are reparented to the test.
func endOnly(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func without(pids []int, pid int) []int {
	return slices.DeleteFunc(slices.Clone(pids), func(p int) bool { return p == pid })
}

func TestKeepPatterns(t *testing.T) {
	k := start(t, "rest", 1)
	var r proc.Reader
	st, err := r.Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]bool{
		"": false, "*": true, "exe": true, "/proc/*": true, "/proc/self/exe": true, st.Comm: true, "ex": false, "role": false,
		"*rest": false, "?xe": true, "/exe": false,
	} {
		s := &Membership{Root: os.Getpid(), Keep: []string{"nothing", pattern}}
		members, kept, err := s.Members()
		if err != nil || len(members)+len(kept) != 1 || (len(kept) == 1) != want {
			t.Errorf("%q: members %v, kept %v, %v", pattern, members, kept, err)
		}
	}
}

func TestForeignIsNeitherMemberNorKept(t *testing.T) {
	s := own(t)
	foreign, ours := start(t, "nest", 2), start(t, "nest", 2)
	var r proc.Reader
	st, err := r.Stat(foreign.PID)
	if err != nil {
		t.Fatal(err)
	}
	s.Foreign = []proc.ID{st.ID}
	s.expect(t, "beside ours", ours.PIDs, nil)
	// The same number with another start time is another process.
	s.known = nil
	s.Foreign = []proc.ID{{PID: st.PID, Start: st.Start + 1}}
	s.expect(t, "another start time", slices.Concat(ours.PIDs, foreign.PIDs), nil)
}

// What a foreign process started is reparented to us when that process ends, but stays foreign.
func TestForeignChildStaysForeignAsOrphan(t *testing.T) {
	s := own(t)
	k := start(t, "nest", 2)
	var r proc.Reader
	st, err := r.Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	s.Foreign = []proc.ID{st.ID}
	s.expect(t, "before", nil, nil)
	endOnly(t, k.PID)
	s.expect(t, "its parent has ended", nil, nil)
}

// leaf makes a cgroup for the test.
func leaf(t *testing.T, name string) *cgroup.Leaf {
	t.Helper()
	dir, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Cgroup, err != nil, fmt.Sprintf("a cgroup v2 hierarchy that can be written (%v)", err))
	// Another run, or one that was killed, has names of its own.
	l, err := cgroup.Create(dir, fmt.Sprintf("mcp-tether-test-%d-%s", os.Getpid(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stage.KillCgroup(l.Dir)
		for { // an ended process leaves its cgroup a moment after it was reaped
			if err := l.Remove(); err == nil {
				break
			}
			reapAll(t)
		}
		l.Close()
	})
	return l
}

// enter moves a process to the leaf.
func enter(t *testing.T, l *cgroup.Leaf, pid int) {
	t.Helper()
	if err := os.WriteFile(l.Dir+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
}

// A process in the leaf is a member, even without a common ancestor.
func TestMembersOfLeaf(t *testing.T) {
	l := leaf(t, "members")
	s := &Membership{Root: os.Getpid(), Leaf: l}
	inside, outside := start(t, "daemon", 1), start(t, "daemon", 1)
	for _, k := range []*testkit.Kin{inside, outside} {
		awaitExit(t, k.PID)
	}
	s.expect(t, "none inside", nil, nil)
	enter(t, l, inside.PIDs[0])
	s.expect(t, "one inside", inside.PIDs, nil)
	// The root is not a member, wherever it is.
	s.Root = inside.PIDs[0]
	s.expect(t, "the root inside", nil, nil)
}

// Where orphans do not fall to the root, the terminal session that the supervisor leads tells what is its own. Once another process has
// the number, it tells nothing.
func TestMembersOfTerminalSession(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "(sh -c 'sleep 100 & sleep 100 & echo up; wait' &); wait; read x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if _, err := fmt.Fscan(out, new(string)); err != nil {
		t.Fatal(err)
	}
	root := start(t, "rest", 1)
	m := &Membership{Root: root.PID}
	m.expect(t, "nobody is below the root", nil, nil)
	m.Session = ids(t, cmd.Process.Pid)[0]
	testkit.Until(t, "sh with two sleeps, which it starts", func() bool {
		end, _, err := m.Members()
		var names []string
		for _, p := range end {
			names = append(names, p.Comm)
		}
		slices.Sort(names)
		return err == nil && slices.Equal(names, []string{"sh", "sleep", "sleep"})
	})
	m.Session.Start++
	m.expect(t, "another process has the number", nil, nil)
	m.Session.Start--
	k := m.Killer(0)
	_, _ = k.Kill()
	testkit.Until(t, "the end of all", func() bool { end, _, err := m.Members(); return len(end) == 0 && err == nil })
}
