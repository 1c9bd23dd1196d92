package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Memory that is read aside is what is read here, and nothing of the copy stays.
func TestAside(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	large := make([]byte, 100<<10)
	for i := range large {
		large[i] = 'x'
	}
	cmd.Env = []string{"A=1", "LARGE=" + string(large), "LAST=1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var r Reader
	pid := cmd.Process.Pid
	if err := r.Aside(func() {
		if !r.HasEnv(pid, "A=1") || !r.HasEnv(pid, "LAST=1") || r.HasEnv(pid, "A=2") {
			t.Error("the environment is another")
		}
		if args := r.Args(pid); !slices.Equal(args, cmd.Args) {
			t.Errorf("args = %q", args)
		}
		if r.HasEnv(1<<30, "A=1") || r.Args(1<<30) != nil {
			t.Error("a process that does not exist was read")
		}
	}); err != nil {
		t.Fatal(err)
	}
	copied := r.AsidePID()
	if err := r.Aside(func() { r.Args(pid) }); err != nil || copied <= 0 || r.AsidePID() != copied {
		t.Errorf("%v: the copy is %d, and was %d", err, r.AsidePID(), copied)
	}
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", copied)); err != nil || len(fds) != 1 {
		t.Errorf("it has %d descriptors, %v", len(fds), err)
	}
	r.EndAside()
	if err := unix.Kill(copied, 0); !errors.Is(err, unix.ESRCH) || r.AsidePID() != 0 {
		t.Errorf("the copy is still there: %v", err)
	}
}

// A copy that does not answer is given up, and the next one answers.
func TestAsideGivenUp(t *testing.T) {
	var r Reader
	if err := r.Aside(func() { r.Args(os.Getpid()) }); err != nil {
		t.Fatal(err)
	}
	defer r.EndAside()
	if err := unix.Kill(r.AsidePID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := r.Aside(func() { r.HasEnv(os.Getpid(), "A=1"); r.Args(os.Getpid()) }); !errors.Is(err, ErrKeptWaiting) {
		t.Errorf("error = %v", err)
	}
	if r.AsidePID() != 0 {
		t.Error("it is still there")
	}
	if err := r.Aside(func() {
		if r.Args(os.Getpid()) == nil {
			t.Error("nothing was read")
		}
	}); err != nil {
		t.Errorf("error = %v", err)
	}
}
