package evidence

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

// A process that cannot be read for want of a descriptor is not missing from a table: there is no table.
func TestSnapshotWithoutDescriptors(t *testing.T) {
	us := os.Getpid()
	testkit.WithFiles(t, 0, func() {
		if all, err := snapshotOf([]int{us}, os.Getuid(), []string{"PATH"}); err == nil {
			t.Errorf("%+v, and no error", all)
		}
	})
	if all, err := snapshotOf([]int{us, 1 << 30}, os.Getuid(), []string{"PATH"}); err != nil || len(all) != 1 || all[0].PID != us || all[0].Args == nil || all[0].Env == nil {
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
			all, err := Snapshot(os.Getuid(), "PATH")
			i := slices.IndexFunc(all, func(p Process) bool { return p.PID == cmd.Process.Pid })
			if err == nil && (i < 0 || all[i].Args == nil || all[i].Env == nil) {
				t.Fatalf("a process, or what is known of it, is missing without an error: %d", i)
			}
		}
	})
}
