package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// Memory that a goroutine reads is what is read without one.
func TestMemoryApart(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{"A=1", "LARGE=" + strings.Repeat("x", 100<<10), "LAST=1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	p := Stat{ID: ID{PID: cmd.Process.Pid}}
	testkit.Until(t, "the kernel tells the environment", func() bool { // the exec has not ended when Start returns
		has, err := new(Reader).HasEnv(p, "LAST=1")
		return has && err == nil
	})
	for _, r := range []Reader{{}, {Apart: true}} {
		for assignment, want := range map[string]bool{
			"A=1": true, "LAST=1": true, "A=2": false, "A=": false, "A": false, "AST=1": false, "A=12": false, "": false,
		} {
			if has, err := r.HasEnv(p, assignment); has != want || err != nil {
				t.Errorf("%s: %v, %v", assignment, has, err)
			}
		}
		if args, err := r.Args(p); !slices.Equal(args, cmd.Args) || err != nil {
			t.Errorf("args = %q, %v", args, err)
		}
		if _, err := r.Args(Stat{ID: ID{PID: 1 << 30}}); !errors.Is(err, unix.ENOENT) {
			t.Errorf("a process that does not exist was read: %v", err)
		}
	}
}

// A read that does not end is left behind, and the next goes on without it.
func TestMemoryLeftBehind(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r := Reader{Apart: true}
	began := time.Now()
	if _, err := r.readApart(fifo, 0, make([]byte, 8)); !errors.Is(err, ErrKeptWaiting) || Starved(err) {
		t.Errorf("error = %v", err)
	}
	if took := time.Since(began); took < memoryPauses*memoryPause {
		t.Errorf("given up after %v", took)
	}
	if args, err := r.Args(Stat{ID: ID{PID: os.Getpid()}}); len(args) == 0 || err != nil {
		t.Errorf("another process: %q, %v", args, err)
	}
	if fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK, 0); err != nil {
		t.Errorf("nobody waits: %v", err)
	} else {
		unix.Close(fd) // ends the wait
	}
}

// A process that has left state D is read. One that has kept a reader waiting is not read again.
func TestStateD(t *testing.T) {
	var r Reader
	us := Stat{ID: ID{PID: os.Getpid()}, State: 'D', Threads: 1}
	if args, err := r.Args(us); len(args) == 0 || err != nil {
		t.Errorf("%q, %v", args, err)
	}
	r.waiting = map[ID]bool{us.ID: true}
	if _, err := r.Args(us); !errors.Is(err, ErrKeptWaiting) {
		t.Errorf("read again: %v", err)
	}
}
