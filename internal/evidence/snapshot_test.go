package evidence

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/testkit"
)

// everything is what these tests read of all processes.
func everything() *Wanted {
	yes := func(int) bool { return true }
	return &Wanted{Args: yes, Env: yes, Names: []string{"PATH"}}
}

// A process that cannot be read for want of a descriptor is not missing from a table: there is no table.
func TestSnapshotWithoutDescriptors(t *testing.T) {
	us := os.Getpid()
	testkit.WithFiles(t, 0, func() {
		if all, err := snapshotOf([]int{us}, everything()); err == nil {
			t.Errorf("%+v, and no error", all)
		}
	})
	if all, err := snapshotOf([]int{us, 1 << 30}, everything()); err != nil || len(all) != 1 || all[0].PID != us || all[0].Args == nil || all[0].Env == nil {
		t.Errorf("the control: %+v, %v", all, err)
	}
}

// The same where descriptors come and go.
func TestSnapshotAtALimitThatChanges(t *testing.T) {
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
	// The kernel shows them a moment after Start.
	testkit.Until(t, "the arguments of cat", func() bool {
		args, _ := new(proc.Reader).Args(proc.Stat{ID: proc.ID{PID: cmd.Process.Pid}})
		return args != nil
	})
	testkit.ToggleFiles(t, func() {
		for range 20 {
			all, err := Snapshot(everything())
			i := slices.IndexFunc(all, func(p Process) bool { return p.PID == cmd.Process.Pid })
			if err == nil && (i < 0 || all[i].Args == nil || all[i].Env == nil) {
				t.Fatalf("a process, or what is known of it, is missing without an error: %d", i)
			}
		}
	})
}

// Two descriptors are enough: one for the copy that reads memory, and one for the table.
func TestSnapshotWithTwoDescriptors(t *testing.T) {
	free, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	list := slices.Repeat([]int{os.Getpid()}, 500)
	testkit.WithFiles(t, uint64(free+2), func() {
		all, err := snapshotOf(list, everything())
		if err != nil || len(all) != len(list) {
			t.Errorf("%d of %d, %v", len(all), len(list), err)
		}
		for _, p := range all {
			if p.Args == nil || p.Env == nil {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// The copy that reads memory is asked for several processes at once: a question for each file changes processes twice.
func TestSnapshotAsksSeldom(t *testing.T) {
	const processes = 1000
	before := waits(t)
	all, err := snapshotOf(slices.Repeat([]int{os.Getpid()}, processes), everything())
	if err != nil || len(all) != processes {
		t.Fatalf("%d, %v", len(all), err)
	}
	if n := waits(t) - before; n == 0 || n > processes {
		t.Errorf("the copy waited %d times for %d processes with two files each", n, processes)
	}
}

// waits is how often children that have ended waited for something.
func waits(t *testing.T) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &u); err != nil {
		t.Fatal(err)
	}
	return u.Nvcsw
}
