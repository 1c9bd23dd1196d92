package proc

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

func pidsOf(list []Stat) []int {
	var out []int
	for _, s := range list {
		out = append(out, s.PID)
	}
	slices.Sort(out)
	return out
}

// familySize is how many processes report in the role "family". They are itself, two children (one started by another
// thread), a third child with a child of its own, and the daemon.
const familySize = 6

func TestDescendantsAgree(t *testing.T) {
	subreaper(t)
	k := testkit.Start(t, "family", familySize, nil)
	want := slices.Clone(k.PIDs)
	slices.Sort(want)
	var r Reader
	byList, err := r.Descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	byScan, err := r.descendantsByScan(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// The daemon's parent is an unreaped zombie; both ways see it.
	list, scan := pidsOf(byList), pidsOf(byScan)
	if !slices.Equal(list, scan) {
		t.Errorf("children files give %v, the table gives %v", list, scan)
	}
	if got := pidsOf(slices.DeleteFunc(slices.Clone(byList), Stat.Dead)); !slices.Equal(got, want) {
		t.Errorf("living descendants %v, want %v", got, want)
	}
	for _, found := range [][]Stat{byList, byScan} {
		parentsFirst(t, found)
	}
}

func parentsFirst(t *testing.T, list []Stat) {
	t.Helper()
	seen := map[int]bool{os.Getpid(): true}
	for _, s := range list {
		if !seen[s.PPID] {
			t.Errorf("%d comes before its parent %d", s.PID, s.PPID)
		}
		seen[s.PID] = true
	}
}

// A process that cannot be read for want of a descriptor is not passed over in silence: a teardown would take it for
// one that has ended. Another part of the program may take the last descriptor at any moment of the look.
func TestDescendantsWithoutDescriptors(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	var r Reader
	missed := 0
	testkit.ToggleFiles(t, func() {
		for range 5000 {
			all, err := r.Descendants(os.Getpid())
			if err == nil && !slices.Contains(pidsOf(all), cmd.Process.Pid) {
				missed++
			}
		}
	})
	if missed > 0 {
		t.Errorf("missed %d times without an error", missed)
	}
}

// The negative control: without a subreaper above it, a daemon falls out of the tree.
func TestDescendantsLoseDaemonWithoutSubreaper(t *testing.T) {
	var adopts int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptrOf(&adopts), 0, 0, 0); err != nil || adopts != 0 {
		t.Fatalf("the test is a subreaper: %d, %v", adopts, err)
	}
	k := testkit.Start(t, "daemon", 1, nil)
	wait(t, k.PID)
	var r Reader
	for name, list := range map[string]func(int) ([]Stat, error){"list": r.Descendants, "scan": r.descendantsByScan} {
		found, err := list(os.Getpid())
		if err != nil || slices.Contains(pidsOf(found), k.PIDs[0]) {
			t.Errorf("%s: %v holds the daemon %d, %v", name, pidsOf(found), k.PIDs[0], err)
		}
	}
	if s, err := r.Stat(k.PIDs[0]); err != nil || s.Dead() {
		t.Errorf("the daemon is not alive: %+v, %v", s, err)
	}
}

// A subtree is listed without its neighbours.
func TestDescendantsOfOne(t *testing.T) {
	a, b := testkit.Start(t, "nest", 2, nil), testkit.Start(t, "nest", 2, nil)
	var r Reader
	found, err := r.Descendants(a.PID)
	if err != nil || len(found) != 1 || found[0].PPID != a.PID || slices.Contains(b.PIDs, found[0].PID) {
		t.Errorf("below %d (%v): %+v, %v", a.PID, a.PIDs, found, err)
	}
	// A pid that no process has is an error, or has no descendants.
	if found, err := r.Descendants(1 << 30); err == nil && len(found) != 0 {
		t.Errorf("below nobody: %v", found)
	}
}

// The children of a process may be read when its pid has become another process's. They are not descendants then.
func TestChildrenOfReusedPID(t *testing.T) {
	k := testkit.Start(t, "nest", 2, nil)
	var r Reader
	s, err := r.Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	list, same, err := r.childrenOf(s)
	if len(list) != 1 || !slices.Contains(k.PIDs, list[0]) || !same || err != nil {
		t.Errorf("children %v, same %t, %v", list, same, err)
	}
	s.Start--
	if _, same, err := r.childrenOf(s); same || err != nil {
		t.Errorf("of another process: same %t, %v", same, err)
	}
	k.Stdin.Close()
	k.Dead()
	wait(t, k.PID)
	if list, _, err := r.childrenOf(s); len(list) > 0 || err != nil && !errors.Is(err, ErrGone) {
		t.Errorf("of none: %v, %v", list, err)
	}
}

// A process whose first thread has ended shows state Z, and lives.
func TestProcessWithoutMainThreadIsNotDead(t *testing.T) {
	k := testkit.Start(t, "headless", 1, nil)
	var r Reader
	s, err := r.Stat(k.PID)
	if err != nil {
		t.Fatal(err)
	}
	if s.Dead() {
		t.Errorf("state %c with %d threads is taken for dead, but it answers only when it is asked to end", s.State, s.Threads)
	}
}

func TestStatOfNobody(t *testing.T) {
	k := testkit.Start(t, "rest", 1, nil)
	k.Stdin.Close()
	awaitExit(t, k.PID)
	var r Reader
	if s, err := r.Stat(k.PID); err != nil || !s.Dead() {
		t.Errorf("unreaped: %+v, %v", s, err)
	}
	wait(t, k.PID)
	if s, err := r.Stat(k.PID); !errors.Is(err, ErrGone) {
		t.Errorf("reaped: %+v, %v; want ErrGone", s, err)
	}
	if _, err := OpenPidfd(k.PID); !errors.Is(err, ErrGone) {
		t.Errorf("pidfd: %v, want ErrGone", err)
	}
	if _, err := UID(k.PID); !errors.Is(err, ErrGone) {
		t.Errorf("owner: %v, want ErrGone", err)
	}
}

// What cannot be read for want of a descriptor is no process that has ended, and the caller is told.
func TestWhatCannotBeReadIsTold(t *testing.T) {
	var (
		r               Reader
		stats           []Stat
		err, errThreads error
		errEnv          error
	)
	us, threads := Stat{ID: ID{PID: os.Getpid()}}, Stat{ID: ID{PID: os.Getpid()}, Threads: 2}
	look := func() {
		stats, err = r.stats([]int{us.PID})
		_, errEnv = r.HasEnv(us, "A=1")
		_, errThreads = r.HasEnv(threads, "A=1")
	}
	if look(); len(stats) != 1 || errors.Join(err, errEnv, errThreads) != nil {
		t.Errorf("the control: %v, %v, %v, %v", stats, err, errEnv, errThreads)
	}
	testkit.WithFiles(t, 0, look)
	if len(stats) != 0 || !Starved(err) || !Starved(errEnv) || !Starved(errThreads) {
		t.Errorf("without a descriptor: %v, %v, %v, %v", stats, err, errEnv, errThreads)
	}
}
