package proc

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// both are both files of processes.
func both(of ...Stat) (files []Memory) {
	r := Reader{Apart: true}
	for _, s := range of {
		files = r.Files(files, s, true, true)
	}
	return files
}

// What was read ahead is found without the copy, and is what the copy reads. What did not fit is read when it is asked for.
func TestReadAhead(t *testing.T) {
	var stats []Stat
	for i := range Ahead {
		cmd := exec.Command("sleep", "60")
		cmd.Env = []string{"A=" + strings.Repeat("x", i), "LAST=1"}
		if i == Ahead-1 {
			cmd.Env[0] += strings.Repeat("x", memoryWindow)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		stats = append(stats, Stat{ID: ID{PID: cmd.Process.Pid}})
	}
	r := Reader{Apart: true}
	defer r.EndCopy()
	r.ReadAhead(both(stats...))
	r.ReadAhead(both()) // takes the answer
	r.copy.end()
	for i, s := range stats {
		args, err := r.Args(s)
		if !slices.Equal(args, []string{"sleep", "60"}) || err != nil {
			t.Errorf("%d: args = %q, %v", i, args, err)
		}
		if r.CopyPID() != 0 {
			t.Fatalf("%d was read by a copy, not ahead", i)
		}
		last := i == Ahead-1
		if has, err := r.HasEnv(s, "LAST=1"); !has || err != nil {
			t.Errorf("%d: the end of the environment is missing: %v", i, err)
		}
		if (r.CopyPID() != 0) != last {
			t.Errorf("%d: copy %d", i, r.CopyPID())
		}
	}
}

// Each answer goes to its process, whatever is asked between question and answer, and an older one is not given.
func TestReadAheadInTurn(t *testing.T) {
	us, parent, none := Stat{ID: ID{PID: os.Getpid()}}, Stat{ID: ID{PID: os.Getppid()}}, Stat{ID: ID{PID: 1 << 30}}
	var plain Reader
	want, err := plain.Args(us)
	if err != nil {
		t.Fatal(err)
	}
	r := Reader{Apart: true}
	defer r.EndCopy()
	r.ReadAhead(both(none, us))
	r.ReadAhead(both(parent))
	for range 2 {
		if args, err := r.Args(us); !slices.Equal(args, want) || err != nil {
			t.Errorf("args = %q, %v", args, err)
		}
		if _, err := r.Args(none); !errors.Is(err, unix.ENOENT) {
			t.Errorf("a process that does not exist: %v", err)
		}
		if args, err := r.Args(parent); len(args) == 0 || slices.Equal(args, want) || err != nil {
			t.Errorf("parent: %q, %v", args, err)
		}
	}
	other := us
	other.Start++
	r.copy.end()
	if _, err := r.Args(other); err != nil || r.CopyPID() == 0 {
		t.Errorf("another process of that pid was answered for by what was read of this one: %v", err)
	}
}

// A copy that does not answer what is read ahead is given up; each file is then asked for by itself, and none ahead.
func TestReadAheadGivenUp(t *testing.T) {
	us := Stat{ID: ID{PID: os.Getpid()}}
	r := Reader{Apart: true}
	defer r.EndCopy()
	if _, err := r.Args(us); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(r.CopyPID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.ReadAhead(both(us))
	if args, err := r.Args(us); len(args) == 0 || err != nil {
		t.Errorf("args = %q, %v", args, err)
	}
	if r.ReadAhead(both(us)); len(r.ahead.asked) > 0 {
		t.Error("it reads ahead once more")
	}
}
