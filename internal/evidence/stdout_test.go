package evidence

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// Of the processes that have a pipe open, only those that can read it are readers of it.
func TestEndsOfAPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	start := func(in, out *os.File) int {
		cmd := exec.Command("sleep", "60")
		cmd.Stdin, cmd.Stdout = in, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	reader, writer, neither := start(r, nil), start(nil, w), start(nil, nil)
	all := EndsOf([]int{reader, writer, neither, 1 << 30})
	if elsewhere, got := Stdout(writer, all); elsewhere || !slices.Equal(got, []int{reader}) {
		t.Errorf("%v, %v; want %d", elsewhere, got, reader)
	}
	if elsewhere, got := Stdout(neither, all); elsewhere || got != nil {
		t.Errorf("/dev/null: %v, %v", elsewhere, got)
	}
	r.Close()
	w.Close()
}

// The output of a service goes to a socket of its manager's log, whose other end a plain user cannot see. A gateway that
// made a pair of sockets for its server holds the other end itself, until it is dead.
func TestStdoutOfSocket(t *testing.T) {
	needPeers(t)
	server := func(out *os.File) int {
		cmd := exec.Command("sleep", "60")
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Close()
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd.Process.Pid
	}
	ours, theirs := sockets(t)
	gateway, pid := reader(t, nil, ours), server(theirs)
	read := func(inSight ...int) (bool, []int) { return Stdout(pid, EndsOf(inSight)) }
	if elsewhere, got := read(gateway, pid); elsewhere || !slices.Equal(got, []int{gateway}) {
		t.Errorf("held in sight: %t, %v; want %d", elsewhere, got, gateway)
	}
	ours.Close()
	if elsewhere, got := read(pid); !elsewhere || len(got) > 0 {
		t.Errorf("held out of sight: %t, %v", elsewhere, got)
	}
	if err := unix.Kill(gateway, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the other end of a closed socket is not elsewhere", func() bool {
		elsewhere, got := read(gateway, pid)
		return !elsewhere && len(got) == 0
	})
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if elsewhere, got := Stdout(server(os.NewFile(uintptr(fd), "tcp")), Ends{}); !elsewhere || len(got) > 0 {
		t.Errorf("a socket without a known other end: %t, %v", elsewhere, got)
	}
}

// The reader of a pipe may be out of sight: a process of another user, or one that may not be dumped. Then the kernel is
// asked, which knows when there is none.
func TestStdoutOfPipe(t *testing.T) {
	r, w := pipes(t)
	cmd := exec.Command("sleep", "60")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid, unseen := cmd.Process.Pid, reader(t, r)
	w.Close()
	read := func(inSight ...int) (bool, []int) { return Stdout(pid, EndsOf(inSight)) }
	if elsewhere, got := read(unseen, pid); elsewhere || !slices.Equal(got, []int{unseen}) {
		t.Errorf("read in sight: %t, %v; want %d", elsewhere, got, unseen)
	}
	if elsewhere, got := read(pid); !elsewhere || len(got) > 0 {
		t.Errorf("read out of sight: %t, %v", elsewhere, got)
	}
	if err := unix.Kill(unseen, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "a pipe without a reader is not elsewhere", func() bool {
		elsewhere, got := read(pid)
		return !elsewhere && len(got) == 0
	})
	testkit.WithFiles(t, 0, func() {
		if elsewhere, got := read(pid); !elsewhere || len(got) > 0 {
			t.Errorf("without a descriptor: %t, %v", elsewhere, got)
		}
	})
}
