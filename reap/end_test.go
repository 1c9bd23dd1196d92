package reap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/teardown"
)

// Nothing that lives is reported as ended, even if package teardown has forgotten it. A client of a container engine
// may leave its container behind.
func TestConcludeIsNoGuess(t *testing.T) {
	var r proc.Reader
	self, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dead := proc.ID{PID: self.PID, Start: self.Start - 1}
	for name, c := range map[string]struct {
		f    Finding
		want string
	}{
		"dead":            {Finding{Class: classSevered, Members: []proc.ID{dead}}, resultEnded},
		"alive":           {Finding{Class: classSevered, Members: []proc.ID{dead, self.ID}}, resultSurvived},
		"a client":        {Finding{Class: classSevered, Members: []proc.ID{dead}, remains: remains{runsContainer: true}}, resultSurvived},
		"a session's own": {Finding{Class: classRecord, Members: []proc.ID{dead}, remains: remains{runsContainer: true}}, resultEnded},
	} {
		c.f.conclude()
		if c.f.Result != c.want || c.f.over() != (len(c.f.Survivors) == 0) {
			t.Errorf("%s: %s, %v", name, c.f.Result, c.f.Survivors)
		}
	}
}

// A leaf that cannot be removed keeps its record, as at the end of a session: nothing else says what is to be kept of it.
func TestConcludeKeepsTheRecordOfALeaf(t *testing.T) {
	dir, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Cgroup, err != nil, fmt.Sprintf("a cgroup v2 hierarchy that can be written (%v)", err))
	leaf, err := cgroup.Create(dir, fmt.Sprintf("mcp-tether-conclude-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	// A process that came after the last scan stays in it.
	at, err := os.Open(leaf.Dir)
	if err != nil {
		t.Fatal(err)
	}
	late := exec.Command("cat")
	late.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(at.Fd())}
	in, err := late.StdinPipe()
	if err == nil {
		err = late.Start()
	}
	_ = at.Close()
	if err != nil {
		t.Fatal(errors.Join(err, leaf.Remove()))
	}
	s := deadSession(t, "", false)
	for _, result := range []string{resultFailed, resultRemoved} {
		again, err := cgroup.Open(leaf.Dir)
		if err != nil {
			t.Error(err)
			break
		}
		f := Finding{Class: classRecord, Session: deadID, remains: remains{stored: s, group: teardown.Group{Leaf: again}}}
		f.conclude()
		again.Close()
		if f.Result != result || (left(t, s) == "") != (result == resultRemoved) {
			t.Errorf("%s %q, files %q, want %s", f.Result, f.Survivors, left(t, s), result)
		}
		_ = in.Close()
		_ = late.Wait()
	}
	leaf.Close()
}

// What a kept process has started in the leaf since the last scan, while containers were removed, is moved out of it as well. Or it
// would be found there without what it is kept for.
func TestConcludeMovesOutWhatTheKeptHasStarted(t *testing.T) {
	dir, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Cgroup, err != nil, fmt.Sprintf("a cgroup v2 hierarchy that can be written (%v)", err))
	leaf, err := cgroup.Create(dir, fmt.Sprintf("mcp-tether-moved-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Rmdir(leaf.Dir) })
	_, launch, _ := testkit.Keeper(t, leaf.FD())
	g := &teardown.Group{Leaf: leaf, UID: os.Getuid(), Keep: []string{"sh"}}
	b := teardown.Batch{Groups: []*teardown.Group{g}, Since: math.MaxUint64}
	if err := b.End(quickly()); err != nil {
		t.Error(err)
	}
	child := launch()
	f := Finding{Class: classCgroup, Session: deadID, remains: remains{group: *g}}
	f.conclude()
	leaf.Close()
	if f.Result != resultRemoved {
		t.Errorf("%s %q", f.Result, f.Survivors)
	}
	var r proc.Reader
	if st, err := r.Stat(child); err != nil || st.Dead() {
		t.Errorf("the child has ended: %v", err)
	}
}

// A session that a kept process has started is moved out of its own leaf as well, and both leaves go.
func TestConcludeMovesOutTheSessionOfTheKept(t *testing.T) {
	dir, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Cgroup, err != nil, fmt.Sprintf("a cgroup v2 hierarchy that can be written (%v)", err))
	leaf, err := cgroup.Create(dir, fmt.Sprintf("mcp-tether-outer-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l, err := cgroup.Open(leaf.Dir); err == nil {
			_ = l.RemoveSoon(removeTries)
			l.Close()
		}
	})
	inner, err := cgroup.Create(leaf.Dir, "mcp-tether-inner")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	defer leaf.Close()
	_, launch, _ := testkit.Keeper(t, leaf.FD())
	child := launch()
	if err := os.WriteFile(inner.Dir+"/cgroup.procs", []byte(strconv.Itoa(child)), 0); err != nil {
		t.Fatal(err)
	}
	s := deadSession(t, "", false)
	g := &teardown.Group{Leaf: leaf, UID: os.Getuid(), Keep: []string{"sh"}}
	b := teardown.Batch{Groups: []*teardown.Group{g}, Since: math.MaxUint64}
	if err := b.End(quickly()); err != nil {
		t.Error(err)
	}
	if err := (&Finding{Session: deadID, remains: remains{stored: s, group: *g}}).tidy(); err != nil {
		t.Error(err)
	}
	var r proc.Reader
	if st, err := r.Stat(child); err != nil || st.Dead() || leaf.Has(child) {
		t.Errorf("what the kept has started: %v, in the leaf %t", err, leaf.Has(child))
	}
	if !leaf.Gone() || left(t, s) != "" {
		t.Errorf("the leaf is gone: %t, files %q", leaf.Gone(), left(t, s))
	}
}

// A leaf that cannot be opened for want of a descriptor may be there, and nothing but the record names it.
func TestConcludeKeepsTheRecordOfAnUnseenLeaf(t *testing.T) {
	s := deadSession(t, "", false)
	f := Finding{Class: classRecord, Session: deadID, UID: os.Getuid(), remains: remains{stored: s, leaf: "/sys/fs/cgroup/mcp-tether-" + deadID}}
	testkit.WithFiles(t, 0, f.openLeaf)
	f.conclude()
	if f.Result != resultFailed || len(f.Survivors) != 1 || left(t, s) == "" {
		t.Errorf("%s %q, files %q", f.Result, f.Survivors, left(t, s))
	}
	f = Finding{Class: classRecord, Session: deadID, UID: os.Getuid(), remains: remains{stored: s, leaf: f.leaf}}
	f.openLeaf()
	f.conclude()
	if f.Result != resultRemoved || left(t, s) != "" {
		t.Errorf("a leaf that is gone: %s %q, files %q", f.Result, f.Survivors, left(t, s))
	}
}

// However many dead sessions have a cgroup, there are descriptors enough to end them.
func TestEndOfManyLeaves(t *testing.T) {
	dir, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Cgroup, err != nil, fmt.Sprintf("a cgroup v2 hierarchy that can be written (%v)", err))
	var found []Finding
	for n := range maxAtOnce + maxAtOnce/2 {
		leaf := fmt.Sprintf("%s/mcp-tether-many-%d-%d", dir, os.Getpid(), n)
		if err := os.Mkdir(leaf, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Rmdir(leaf) })
		found = append(found, Finding{Class: classCgroup, Session: deadID, UID: os.Getuid(), remains: remains{leaf: leaf}})
	}
	free, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	testkit.WithFiles(t, uint64(free+3*maxAtOnce+maxAtOnce/2), func() { err = endFindings(found, false, quickly(), math.MaxUint64) })
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if f.Result != resultRemoved {
			t.Fatalf("%s: %q", f.Result, f.Survivors)
		}
	}
}

// Without time for the dwell, dropped servers are only reported, and the pass is not complete.
func TestSettleDroppedWithoutTime(t *testing.T) {
	for _, unwrapped := range []bool{true, false} {
		dropped := []Finding{{Class: classDropped}}
		o := Options{Unwrapped: unwrapped, Dwell: time.Hour}
		late, err := o.end(dropped, time.Now().Add(time.Minute), 0)
		if err != nil || late != unwrapped {
			t.Errorf("unwrapped %t: late %t, %v", unwrapped, late, err)
		}
		if f := dropped[0]; f.over() || unwrapped && (f.proven(true) || f.Advice == "") {
			t.Errorf("unwrapped %t: %s, %q", unwrapped, f.Class, f.Advice)
		}
	}
}

// The dwell lasts from the scan for dropped servers on, however long before that the pass began.
func TestDwellBeginsAtTheScan(t *testing.T) {
	var again time.Time
	own := []Finding{
		{Class: classSuspect, shown: shown{Name: "first"}},
		{Class: classDropped, shown: shown{Name: "third"}, remains: remains{still: func() bool { again = time.Now(); return false }}},
		{Class: classSurplus, shown: shown{Name: "second"}},
	}
	o := Options{Unwrapped: true, Dwell: 50 * time.Millisecond}
	scanned := time.Now()
	if late, err := o.end(own, scanned.Add(testkit.Patience), 0); late || err != nil {
		t.Fatal(late, err)
	}
	if after := again.Sub(scanned); after < o.Dwell || own[2].proven(true) {
		t.Errorf("examined again after %v, %s", after, own[2].Class)
	}
	if got := own[0].Name + own[1].Name + own[2].Name; got != "firstsecondthird" {
		t.Errorf("order %s", got)
	}
}
