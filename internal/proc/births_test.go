package proc

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

func TestSignalBorn(t *testing.T) {
	old := testkit.Start(t, "nest", 2, nil)
	var r Reader
	asked := []int{}
	signal := func(to ...int) (int, error) {
		asked = asked[:0]
		return r.SignalBorn(func(s Stat) bool {
			asked = append(asked, s.PID)
			return slices.Contains(to, s.PID)
		}, syscall.SIGKILL)
	}
	if n, err := signal(); n != 0 || err == nil {
		t.Errorf("without a look at the table: %d, %v", n, err)
	}
	if _, err := r.All(); err != nil {
		t.Fatal(err)
	}
	born, spared := testkit.Start(t, "nest", 2, nil), testkit.Start(t, "rest", 1, nil)
	n, err := signal(slices.Concat(old.PIDs, born.PIDs)...)
	if n < 2 || err != nil { // others on this machine may just have ended
		t.Errorf("reached %d, %v; want the 2 of %v", n, err, born.PIDs)
	}
	born.Dead()
	if !slices.Contains(asked, spared.PID) || slices.Contains(asked, old.PID) {
		t.Errorf("asked for %v, with %v and without %v", asked, spared.PIDs, old.PIDs)
	}
	if _, err := signal(spared.PID); err != nil || slices.Contains(asked, spared.PID) {
		t.Errorf("once more: %v; asked for %v, and %d was told already", err, asked, spared.PID)
	}
	// The negative control: births are not followed after the children files were read.
	if _, err := r.Descendants(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if n, err := signal(); n != 0 || err == nil {
		t.Errorf("after a look at children: %d, %v", n, err)
	}
}

// A child is not settled before its parent: while the parent's pid is open, the child is looked up again.
func TestSignalBornWaitsForParent(t *testing.T) {
	k := testkit.Start(t, "rest", 1, nil)
	is := func(b birth) bool { return b.pid == k.PID }
	r := Reader{births: births{newest: newest(t)}}
	r.births.open = []birth{{pid: k.PID}, {pid: os.Getpid()}} // signalIf refuses the test itself, so its pid stays open
	for range 3 {
		if _, err := r.SignalBorn(func(Stat) bool { return false }); err != nil || !slices.ContainsFunc(r.births.open, is) {
			t.Errorf("%v; open %v", err, r.births.open)
		}
	}
	r.births.open = []birth{{pid: k.PID}}
	if _, err := r.SignalBorn(func(Stat) bool { return false }); err != nil || slices.ContainsFunc(r.births.open, is) {
		t.Errorf("%v; it is told, but open: %v", err, r.births.open)
	}
	if err := unix.Kill(k.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, k.PID)
	r.births.open = []birth{{pid: k.PID, asked: maxAsked}} // open for so long because its parent was
	if _, err := r.SignalBorn(func(Stat) bool { return false }); err != nil || slices.ContainsFunc(r.births.open, is) {
		t.Errorf("%v; it is gone, but open: %v", err, r.births.open)
	}
}

func newest(t *testing.T) int {
	t.Helper()
	var r Reader
	n, err := r.newestPID()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A process whose parent ended before the parent could be read is looked up again.
func TestSignalBornAsksForOrphans(t *testing.T) {
	var r Reader
	r.trackTable([]Stat{{ID: ID{PID: 7}, PPID: 6}, {ID: ID{PID: 6}, PPID: 5}, {ID: ID{PID: 1}}})
	if !slices.Equal(r.births.open, []birth{{pid: 6}}) {
		t.Errorf("open are %v, want 6", r.births.open)
	}
}

// Pids wrap around at their maximum. The test makes that happen in a pid namespace of its own.
func TestSignalBornAcrossWrap(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	cmd := testkit.Command(t, "wrap")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

var _ = testkit.Role("wrap", wrap)

func wrap() {
	if err := acrossWrap(); err != nil {
		testkit.Fail(err.Error())
	}
}

func acrossWrap() error {
	if err := ownProc(); err != nil {
		return err
	}
	var r Reader
	limit, err := r.number("/proc/sys/kernel/pid_max")
	if err != nil {
		return err
	}
	// This process has a low pid, which is among those that the kernel passes again.
	if err := exec.Command("/bin/sleep", "1000").Start(); err != nil {
		return err
	}
	if _, err := r.All(); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(limit-8)), 0); err != nil {
		return err
	}
	// A small machine has no more pids than are looked up, unless its kernel gives each namespace as many as there can be.
	if n, err := r.SignalBorn(func(Stat) bool { return true }); limit > maxOpen && (n != 0 || err == nil) {
		return fmt.Errorf("reached %d, %w, though thousands of pids were passed over", n, err)
	}
	if _, err := r.All(); err != nil {
		return err
	}
	// The first of them get pids below the maximum, the last get low ones; a thread may take a pid in between.
	var pids []int
	for range 12 {
		cmd := exec.Command("/bin/sleep", "1000")
		if err := cmd.Start(); err != nil {
			return err
		}
		pids = append(pids, cmd.Process.Pid)
	}
	if slices.IsSorted(pids) {
		return fmt.Errorf("pids did not begin anew: %v", pids)
	}
	var reached []int
	n, err := r.SignalBorn(func(s Stat) bool {
		if !strings.HasPrefix(s.Comm, "sleep") {
			return false
		}
		reached = append(reached, s.PID)
		return true
	}, syscall.SIGKILL)
	// A thread may have ended.
	if n < len(pids) || err != nil || !slices.Equal(reached, pids) {
		return fmt.Errorf("reached %v (%d) of %v in this order: %w", reached, n, pids, err)
	}
	all, err := r.All()
	if err != nil {
		return err
	}
	place := func(pid int) int { return slices.IndexFunc(all, func(s Stat) bool { return s.PID == pid }) }
	if place(pids[0]) < place(pids[11]) {
		return fmt.Errorf("%d was read before %d, which is newer", pids[0], pids[11])
	}
	return nil
}
