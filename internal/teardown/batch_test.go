package teardown

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// ids reads the identities of processes that live.
func ids(t *testing.T, pids ...int) []proc.ID {
	t.Helper()
	var r proc.Reader
	var out []proc.ID
	for _, pid := range pids {
		s, err := r.Stat(pid)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s.ID)
	}
	return out
}

// now is the time in clock ticks since boot.
func now(t *testing.T) uint64 {
	t.Helper()
	ticks, err := proc.Now()
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}

func end(t *testing.T, groups ...*Group) {
	t.Helper()
	b := Batch{Groups: groups, Since: now(t)}
	if err := b.End(Grace{Term: 500 * time.Millisecond, Kill: testkit.Patience}); err != nil {
		t.Error(err)
	}
	for _, g := range groups {
		if len(g.Survivors) > 0 {
			t.Errorf("survivors %+v", g.Survivors)
		}
	}
}

// A process below a seed belongs to the group, whatever its own environment and session.
func TestBatchEnds(t *testing.T) {
	for name, reports := range map[string]int{"rest": 1, "nest": 2, "stubborn": 1, "stopped": 1, "daemon": 1} {
		t.Run(name, func(t *testing.T) {
			own(t)
			k := start(t, name, reports)
			seeds := k.PIDs
			if name == "nest" {
				seeds = []int{k.PID}
			}
			end(t, &Group{Seeds: ids(t, seeds...), UID: os.Getuid()})
			k.Dead()
		})
	}
}

// All groups are asked at once, and killed at once: however many there are, they take one grace.
func TestBatchAsksAllAtOnce(t *testing.T) {
	own(t)
	var groups []*Group
	var all []int
	for range 5 {
		k := start(t, "stubborn", 1)
		groups, all = append(groups, &Group{Seeds: ids(t, k.PID), UID: os.Getuid()}), append(all, k.PID)
	}
	b := startBatch(t, groups...)
	if sent, err := b.killer.Ask(); err != nil || !slices.Equal(signalled(sent), sorted(all...)) {
		t.Errorf("asked %v, %v; want %v", signalled(sent), err, all)
	}
	if sent, err := b.killer.Kill(); err != nil || !slices.Equal(signalled(sent), sorted(all...)) {
		t.Errorf("killed %v, %v; want %v", signalled(sent), err, all)
	}
}

func TestBatchSpares(t *testing.T) {
	for name, c := range map[string]struct {
		env    string
		change func(*Group)
	}{
		"the marked":          {env: KeepMark},
		"the named":           {change: func(g *Group) { g.Keep = []string{"*teardown*", "exe"} }},
		"another user's":      {change: func(g *Group) { g.UID = os.Getuid() + 1 }},
		"who took over a pid": {change: func(g *Group) { g.Seeds[0].Start-- }},
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, "rest", 1, c.env)
			g := &Group{Seeds: ids(t, k.PID), UID: os.Getuid()}
			if c.change != nil {
				c.change(g)
			}
			end(t, g)
			if !k.Alive() {
				t.Error("ended")
			}
		})
	}
}

// What a kept process has started is kept too, even if it is a seed itself.
func TestBatchSparesBelowTheKept(t *testing.T) {
	k := start(t, "nest", 2, KeepMark) // its child has no environment
	end(t, &Group{Seeds: ids(t, k.PIDs...), UID: os.Getuid()})
	for _, pid := range k.PIDs {
		var r proc.Reader
		if s, err := r.Stat(pid); err != nil || s.Dead() {
			t.Errorf("%d was ended", pid)
		}
	}
}

// What a kept process has started stays kept when that process ends while the group is ended.
func TestBatchSparesOrphanOfTheKept(t *testing.T) {
	own(t)
	k := start(t, "nest", 2, KeepMark) // its child has no environment
	g := &Group{Seeds: ids(t, k.PIDs...), UID: os.Getuid()}
	b := startBatch(t, g)
	round := func(f func() ([]Sent, error)) {
		t.Helper()
		if _, err := f(); err != nil || b.killer.left != 0 {
			t.Errorf("%d members, %v", b.killer.left, err)
		}
	}
	round(b.killer.Ask)
	if err := unix.Kill(k.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitExit(t, k.PID)
	reapAll(t)
	round(b.killer.Ask)
	round(b.killer.Kill)
	if !k.Alive() {
		t.Error("the child was ended")
	}
}

// A member may execute a program that is to be kept after it was looked at, in answer to SIGTERM for example.
func TestBatchSparesWhoBecomesKept(t *testing.T) {
	k := start(t, "heir", 1)
	b := startBatch(t, &Group{Seeds: ids(t, k.PID), UID: os.Getuid()})
	if sent, err := b.killer.Ask(); err != nil || len(signalled(sent)) != 1 {
		t.Errorf("asked %v, %v", sent, err)
	}
	k.Await()
	if sent, err := b.killer.Kill(); err != nil || len(sent) != 0 {
		t.Errorf("killed %v, %v", sent, err)
	}
	if !k.Alive() {
		t.Error("ended")
	}
}

// keeper starts a shell of that name with a script that says when it is ready and starts a `sleep` when it gets a line. What
// starts from since on is younger than all others of the script. launch gives the pid of the `sleep`, which has the mark.
func keeper(t *testing.T, mark, script string, env ...string) (shell []proc.ID, since uint64, launch func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keeper")
	testkit.WriteProgram(t, file, []byte("#!/bin/sh\n"+script+"\nexit\n"))
	cmd := exec.Command(file)
	cmd.Env = append(os.Environ(), env...)
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
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // its shell below ends at the end of its input
		_ = cmd.Wait()
	})
	var ready string
	if _, err := fmt.Fscan(out, &ready); err != nil {
		t.Fatal(err)
	}
	started := now(t)
	testkit.Until(t, "the next clock tick", func() bool { since = now(t); return since > started })
	return ids(t, cmd.Process.Pid), since, func() (child int) {
		t.Helper()
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscan(out, &child); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Kill(child, unix.SIGKILL) })
		var r proc.Reader
		testkit.Until(t, "sleep", func() bool {
			s, err := r.Stat(child)
			has, _ := r.HasEnv(s, mark)
			return err == nil && s.Comm == "sleep" && has
		})
		return child
	}
}

// What a kept process starts while a group is ended is kept, although the group has not found that process itself. Another
// parent keeps nothing, whatever its name.
func TestBatchSparesBornOfTheKept(t *testing.T) {
	const (
		mark   = session.EnvID
		own    = mark + "=one"
		start  = "echo ready; read go; sleep 300 & echo $!; read go"
		marked = "echo ready; read go; " + own + " sleep 300 & echo $!; read go"
	)
	for name, c := range map[string]struct {
		script, env             string
		inherited, spared, kept bool
	}{
		"of the kept":                 {start, own, false, true, true},
		"of what the kept started":    {"sh -c '" + start + "'", own, false, true, true},
		"without the mark in between": {"env -u " + mark + " sh -c '" + marked + "'", own, false, true, true},
		"of one that is not kept":     {marked, "", false, false, false},
		"with a mark that others had": {marked, "", true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			shell, since, launch := keeper(t, own, c.script, c.env)
			child := launch()
			group := &Group{UID: os.Getuid(), Session: "one", Inherited: c.inherited, Keep: []string{"keeper"}}
			if c.spared {
				group.Spared = shell
			}
			b := &Batch{Groups: []*Group{group}, Since: since}
			if err := b.End(Grace{Term: 500 * time.Millisecond, Kill: testkit.Patience}); err != nil {
				t.Error(err)
			}
			if got := lives(t, child); got != c.kept {
				t.Errorf("the child lives: %t", got)
			}
		})
	}
}

// lives reports whether a process lives, though another than the test is its parent.
func lives(t *testing.T, pid int) bool {
	t.Helper()
	var r proc.Reader
	s, err := r.Stat(pid)
	if err != nil && !errors.Is(err, proc.ErrGone) {
		t.Fatal(err)
	}
	return err == nil && !s.Dead()
}

// What a kept process has left in the leaf is kept, though that process is elsewhere.
func TestBatchLeafSparesBelowTheKept(t *testing.T) {
	const mark = session.EnvID
	leaf := ownLeaf(t)
	for _, inherited := range []bool{false, true} {
		shell, since, launch := keeper(t, mark+"=one", "echo ready; read go; (echo 0 >"+leaf.Dir+"/cgroup.procs; exec sleep 300) & echo $!; read go", mark+"=one")
		child := launch()
		gr := &Group{Leaf: leaf, Spared: shell, UID: os.Getuid(), Session: "one", Inherited: inherited}
		b := Batch{Groups: []*Group{gr}, Since: since}
		if err := b.End(Grace{Term: 500 * time.Millisecond, Kill: testkit.Patience}); err != nil {
			t.Error(err)
		}
		if _, kept, err := b.members(); !lives(t, child) || !slices.Equal(pids(kept), []int{child}) {
			t.Errorf("inherited %t: ended %t, kept %v, %v", inherited, !lives(t, child), pids(kept), err)
		}
		_ = unix.Kill(child, unix.SIGKILL)
		testkit.Until(t, "an empty leaf", func() bool { populated, err := leaf.Populated(); return err == nil && !populated })
	}
}

// startIn starts a role inside a leaf.
func startIn(t *testing.T, leaf *cgroup.Leaf, name string) *testkit.Kin {
	t.Helper()
	dir, err := os.Open(leaf.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	return testkit.Start(t, name, 0, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())})
}

func ownLeaf(t *testing.T) *cgroup.Leaf {
	t.Helper()
	dir, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Cgroup, err != nil, fmt.Sprintf("a cgroup v2 hierarchy that can be written (%v)", err))
	leaf, err := cgroup.Create(dir, fmt.Sprintf("mcp-tether-batch-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stage.KillCgroup(leaf.Dir)
		err := leaf.Remove()
		for until := time.Now().Add(testkit.Patience); err != nil && time.Now().Before(until); {
			err = leaf.Remove()
		}
		if err != nil {
			t.Error(err)
		}
		leaf.Close()
	})
	return leaf
}

// A family on the run, each process in a session of its own, found by its leaf alone: there is no seed.
func TestBatchLeaf(t *testing.T) {
	leaf := ownLeaf(t)
	own(t)
	k := startIn(t, leaf, "generation")
	end(t, &Group{Leaf: leaf, UID: os.Getuid()})
	k.Dead()
}

// A member of the leaf may have the pid of another process, which has ended since the table was read. The children of that process
// are not the leaf's.
func TestBatchLeafSparesChildrenOfReusedPID(t *testing.T) {
	leaf := ownLeaf(t)
	own(t)
	member, child := startIn(t, leaf, "rest"), start(t, "rest", 1)
	var r proc.Reader
	inside, err := r.Stat(member.PID)
	if err != nil {
		t.Fatal(err)
	}
	below := proc.Stat{ID: ids(t, child.PID)[0], PPID: member.PID}
	for what, age := range map[string]uint64{"reused": 1, "the same": 0} {
		gr := &Group{Leaf: leaf, UID: -1}
		startBatch(t, gr)
		before := inside
		before.Start -= age
		table := proc.NewTable([]proc.Stat{before, below})
		want := []int{member.PID}
		if age == 0 {
			want = sorted(member.PID, child.PID)
		}
		if got := pids(table.Below(gr.roots(table, nil), nil)); !slices.Equal(got, want) {
			t.Errorf("%s: reached %v, want %v", what, got, want)
		}
	}
}

// The kernel kills a leaf as a whole only if all in it is to be ended.
func TestBatchKillsWholeLeaves(t *testing.T) {
	leaf := ownLeaf(t)
	own(t)
	k := startIn(t, leaf, "rest")
	for what, c := range map[string]struct {
		change func(*Group)
		whole  int
	}{
		"all to be ended":   {func(*Group) {}, 1},
		"one kept":          {func(gr *Group) { gr.Spared = ids(t, k.PID) }, 0},
		"one to keep":       {func(gr *Group) { gr.Keep = []string{"*"} }, 0},
		"of another user":   {func(gr *Group) { gr.UID = os.Getuid() + 1 }, 0},
		"no leaf, but seed": {func(gr *Group) { gr.Leaf, gr.Seeds = nil, ids(t, k.PID) }, 0},
	} {
		gr := &Group{Leaf: leaf, UID: -1}
		c.change(gr)
		b := startBatch(t, gr)
		if _, _, err := b.members(); err != nil || len(b.leaves()) != c.whole {
			t.Errorf("%s: %d whole leaves, %v", what, len(b.leaves()), err)
		}
	}
	b := startBatch(t, &Group{Leaf: leaf, UID: -1})
	if sent, err := b.killer.Kill(); err != nil || len(sent) != 1 {
		t.Errorf("killed %v, %v", sent, err)
	}
	k.Dead()
}

// A pass may be called from a shell that outlived its session and is in its leaf: both must survive the pass.
func TestBatchFromWithin(t *testing.T) {
	if name := os.Getenv("MCP_TETHER_TEST_LEAF"); name != "" {
		sweepOwnLeaf(t, name)
		return
	}
	leaf := ownLeaf(t)
	const script = `echo 0 >"$MCP_TETHER_TEST_LEAF/cgroup.procs"; "$0" -test.run='^TestBatchFromWithin$' -test.v; echo the shell lives`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", script, self)
	cmd.Env = append(os.Environ(), "MCP_TETHER_TEST_LEAF="+leaf.Dir)
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"swept", "the shell lives"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("no %q: %v\n%s", want, err, out)
		}
	}
}

func sweepOwnLeaf(t *testing.T, dir string) {
	leaf, err := cgroup.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer leaf.Close()
	b := Batch{Groups: []*Group{{Leaf: leaf, UID: -1}}}
	_ = b.End(Grace{Term: 10 * time.Millisecond, Kill: 10 * time.Millisecond})
	fmt.Fprintln(os.Stdout, "swept")
}

// startBatch is a batch that has not looked yet.
func startBatch(t *testing.T, groups ...*Group) *Batch {
	t.Helper()
	b := &Batch{Groups: groups, Since: now(t)}
	b.start()
	return b
}

// A pass may have looked at the host long before it ends anything. What started since the look is asked for its mark. What
// was there was judged by the look, and is left alone.
func TestBatchAsksSinceTheLook(t *testing.T) {
	k := start(t, "rest", 1, session.EnvID+"=one")
	b := startBatch(t, &Group{UID: os.Getuid(), Session: "one"})
	b.Since = 2
	var r proc.Reader
	s, err := r.Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	for started, want := range map[uint64]string{1: "", 2: "one", s.Start: "one"} {
		if s.Start = started; b.markOf(s) != want {
			t.Errorf("started at %d, looked at %d: not %q", started, b.Since, want)
		}
	}
}

// Where one process could not be inspected, nothing is touched in that look: nobody knows what is below one to keep.
func TestBatchTouchesNothingThatItCannotInspect(t *testing.T) {
	own(t)
	k := start(t, "nest", 2)
	gr := &Group{Seeds: ids(t, k.PIDs...), UID: -1}
	b := startBatch(t, gr)
	all, err := b.reader.All()
	if err != nil {
		t.Fatal(err)
	}
	var members []proc.Stat
	testkit.WithFiles(t, 0, func() { members, _, err = b.judge(all) })
	if len(members) > 0 || !proc.Starved(err) || len(b.leaves()) > 0 {
		t.Errorf("members %v, %v, leaves %v", pids(members), err, b.leaves())
	}
	if members, _, err = b.members(); len(members) != 2 || err != nil {
		t.Errorf("then: members %v, %v", pids(members), err)
	}
}

// A look that failed is made again in the next round: it shortens no grace, and is no look that found nothing.
func TestBatchLooksAgain(t *testing.T) {
	later := time.Now().Add(testkit.Patience)
	failed := errors.New("no process table")
	for name, c := range map[string]struct {
		deadline time.Time
		errs     []error
	}{
		"for a moment":        {later, []error{failed, failed, nil, nil}},
		"between empty looks": {later, []error{nil, failed, nil, nil}},
		"when the time is up": {time.Time{}, []error{failed}},
		"two that found none": {later, []error{nil, nil}}, // the control
	} {
		k, rounds := Killer{}, 0
		k.until(c.deadline, func() ([]Sent, error) {
			rounds++
			return nil, c.errs[rounds-1]
		})
		if rounds != len(c.errs) {
			t.Errorf("%s: %d rounds, want %d", name, rounds, len(c.errs))
		}
	}
}

// What cannot be looked at in the end is told, and is not ended.
func TestBatchStarvedToTheEnd(t *testing.T) {
	k := start(t, "rest", 1)
	b := Batch{Groups: []*Group{{Seeds: ids(t, k.PID), UID: -1}}}
	var err error
	testkit.WithFiles(t, 0, func() { err = b.End(Grace{}) })
	if !proc.Starved(err) {
		t.Errorf("the error is %v", err)
	}
	b.Groups[0].Seeds = ids(t, k.PID) // it lives
	end(t, b.Groups...)
	k.Dead()
}
