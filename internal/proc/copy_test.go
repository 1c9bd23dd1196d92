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

// Memory that a copy reads is what is read here, and nothing of the copy stays.
func TestMemoryByACopy(t *testing.T) {
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
	r := Reader{Apart: true}
	p := Stat{ID: ID{PID: cmd.Process.Pid}}
	for assignment, want := range map[string]bool{"A=1": true, "LAST=1": true, "A=2": false} {
		if has, err := r.HasEnv(p, assignment); has != want || err != nil {
			t.Errorf("%s: %v, %v", assignment, has, err)
		}
	}
	copied := r.CopyPID()
	if args, err := r.Args(p); !slices.Equal(args, cmd.Args) || err != nil {
		t.Errorf("args = %q, %v", args, err)
	}
	if _, err := r.Args(Stat{ID: ID{PID: 1 << 30}}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a process that does not exist was read: %v", err)
	}
	if copied <= 0 || r.CopyPID() != copied {
		t.Errorf("the copy is %d, and was %d", r.CopyPID(), copied)
	}
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", copied)); err != nil || len(fds) != 1 {
		t.Errorf("it has %d descriptors, %v", len(fds), err)
	}
	r.EndCopy()
	if err := unix.Kill(copied, 0); !errors.Is(err, unix.ESRCH) || r.CopyPID() != 0 {
		t.Errorf("the copy is still there: %v", err)
	}
}

// A process without a thread in state D costs no copy.
func TestHealthyProcessIsReadHere(t *testing.T) {
	var r Reader
	p, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if args, err := r.Args(p); len(args) == 0 || err != nil || r.CopyPID() != 0 {
		t.Errorf("%q, %v, copy %d", args, err, r.CopyPID())
	}
	p.Threads, p.State = 1, 'D'
	defer r.EndCopy()
	if args, err := r.Args(p); len(args) == 0 || err != nil || r.CopyPID() == 0 {
		t.Errorf("in state D: %q, %v, copy %d", args, err, r.CopyPID())
	}
}

// A copy that does not answer is given up. Its process is not read again, until that is asked for; others are.
func TestCopyGivenUp(t *testing.T) {
	r := Reader{Apart: true}
	us, parent := Stat{ID: ID{PID: os.Getpid()}}, Stat{ID: ID{PID: os.Getppid()}}
	if _, err := r.Args(us); err != nil {
		t.Fatal(err)
	}
	defer r.EndCopy()
	if err := unix.Kill(r.CopyPID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := r.HasEnv(us, "A=1"); !errors.Is(err, ErrKeptWaiting) || Starved(err) {
		t.Errorf("error = %v", err)
	}
	if r.CopyPID() != 0 {
		t.Error("it is still there")
	}
	if _, err := r.Args(us); !errors.Is(err, ErrKeptWaiting) || r.CopyPID() != 0 {
		t.Errorf("read again: %v", err)
	}
	if args, err := r.Args(parent); len(args) == 0 || err != nil {
		t.Errorf("another process: %q, %v", args, err)
	}
	r.AskAgain()
	if args, err := r.Args(us); len(args) == 0 || err != nil {
		t.Errorf("then: %q, %v", args, err)
	}
}
