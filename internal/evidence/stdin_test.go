package evidence

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

// reader starts a process that never reads its standard input, and closes our copy of that.
func reader(t *testing.T, stdin *os.File, more ...*os.File) int {
	t.Helper()
	cmd := exec.Command("sleep", "60") // a fuse, should the test be killed
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.ExtraFiles = more
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if stdin != nil {
		stdin.Close()
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func pipes(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func sockets(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(fd[0]), "ours"), os.NewFile(uintptr(fd[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func wantFar(t *testing.T, pid int, want Far) Stdin {
	t.Helper()
	s := StdinOf(pid)
	if s.Far != want || s.Why == "" {
		t.Errorf("%+v, want %d", s, want)
	}
	return s
}

func TestStdinPipe(t *testing.T) {
	r, w := pipes(t)
	pid := reader(t, r)
	s := wantFar(t, pid, FarHeld)
	if got := s.Holders(EndsOf([]int{pid, os.Getpid(), 1})); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("held by %v, want %d", got, os.Getpid())
	}
	w.Close()
	s = wantFar(t, pid, Severed)
	if got := s.Holders(EndsOf([]int{pid, os.Getpid()})); len(got) > 0 {
		t.Errorf("severed, and held by %v", got)
	}
	wantFar(t, pid, Severed) // the inspection itself changes nothing
}

// A sibling that inherited the writing end by mistake may still write.
func TestStdinPipeHeldBySibling(t *testing.T) {
	r, w := pipes(t)
	pid := reader(t, r)
	sibling := exec.Command("cat")
	in, err := sibling.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	sibling.ExtraFiles = []*os.File{w}
	if err := sibling.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s := wantFar(t, pid, FarHeld)
	if got := s.Holders(EndsOf([]int{pid, os.Getpid(), sibling.Process.Pid})); !slices.Equal(got, []int{sibling.Process.Pid}) {
		t.Errorf("held by %v, want %d", got, sibling.Process.Pid)
	}
	in.Close()
	if err := sibling.Wait(); err != nil {
		t.Fatal(err)
	}
	wantFar(t, pid, Severed)
}

// What was written and not read yet stays there, whatever is inspected.
func TestStdinPipeUnread(t *testing.T) {
	r, w := pipes(t)
	again, err := unix.Dup(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(again), "ours")
	defer ours.Close()
	pid := reader(t, r)
	if _, err := w.WriteString("request\n"); err != nil {
		t.Fatal(err)
	}
	wantFar(t, pid, FarUnknown)
	w.Close()
	wantFar(t, pid, FarUnknown)
	if b, err := io.ReadAll(ours); err != nil || string(b) != "request\n" {
		t.Errorf("%q, %v", b, err)
	}
	wantFar(t, pid, Severed)
}

// A process that holds the writing end of its own standard input can be written to: by itself.
func TestStdinPipeHeldByItself(t *testing.T) {
	r, w := pipes(t)
	pid := reader(t, r, w)
	w.Close()
	wantFar(t, pid, FarHeld)
}

// StdinOf may keep the writer from its SIGPIPE, and the reader from its end of file, only while it inspects.
func TestStdinLeavesNothingOpen(t *testing.T) {
	r, w := pipes(t)
	pid := reader(t, r)
	wantFar(t, pid, FarHeld)
	before := openFDs(t)
	for range 100 {
		StdinOf(pid)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	_ = w
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// needPeers skips a test where the kernel does not list Unix sockets.
func needPeers(t *testing.T) {
	t.Helper()
	if err := FindsPeers(); err != nil {
		testkit.Lacks(t, testkit.Kernel, true, "sock_diag: "+err.Error())
	}
}

func TestStdinSocket(t *testing.T) {
	needPeers(t)
	ours, theirs := sockets(t)
	pid := reader(t, theirs)
	s := wantFar(t, pid, FarHeld)
	if got := s.Holders(EndsOf([]int{pid, os.Getpid()})); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("held by %v, want %d", got, os.Getpid())
	}
	if _, err := ours.WriteString("unread"); err != nil {
		t.Fatal(err)
	}
	wantFar(t, pid, FarHeld)
	ours.Close()
	wantFar(t, pid, Severed)
}

// Shut down, but open: the gateway lives and waits for the last answers.
func TestStdinSocketShutDown(t *testing.T) {
	needPeers(t)
	ours, theirs := sockets(t)
	pid := reader(t, theirs)
	if err := unix.Shutdown(int(ours.Fd()), unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	wantFar(t, pid, FarHeld)
}

func TestStdinSocketHeldBySibling(t *testing.T) {
	needPeers(t)
	ours, theirs := sockets(t)
	pid := reader(t, theirs)
	again, err := unix.Dup(int(ours.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	wantFar(t, pid, FarHeld)
	unix.Close(again)
	wantFar(t, pid, Severed)
}

// Connected by name, as to a socket unit of a service manager.
func TestStdinSocketAccepted(t *testing.T) {
	needPeers(t)
	dir := t.TempDir()
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	address := &unix.SockaddrUnix{Name: dir + "/s"}
	if err := unix.Bind(listener, address); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(listener, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(client, address); err != nil {
		t.Fatal(err)
	}
	// Waiting to be accepted, the other end has no inode yet: that must not read as closed.
	if s := StdinOf(reader(t, dup(t, client))); s.Far == Severed {
		t.Errorf("not accepted yet: %+v", s)
	}
	accepted, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	pid := reader(t, os.NewFile(uintptr(accepted), "accepted"))
	wantFar(t, pid, FarHeld)
	unix.Close(client)
}

func dup(t *testing.T, fd int) *os.File {
	t.Helper()
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(again), "copy")
}

// Whatever has no other end proves nothing.
func TestStdinWithoutOtherEnd(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		pty = nil // /dev/null once more
	}
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	lone, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{nil, file, pty, os.NewFile(uintptr(tcp), "tcp"), os.NewFile(uintptr(event), "event"), os.NewFile(uintptr(lone), "lone")} {
		wantFar(t, reader(t, f), FarUnknown)
	}
}

// A named pipe can be opened by another process at any time.
func TestStdinFIFO(t *testing.T) {
	name := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	pid := reader(t, r)
	if s := StdinOf(pid); s.Far == Severed {
		t.Errorf("%+v", s)
	}
	w.Close()
	if s := StdinOf(pid); s.Far == Severed {
		t.Errorf("nobody holds it now, but anybody may open it: %+v", s)
	}
}

func TestStdinClosedOrGone(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exec <&-; echo closed; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("closed\n"))); err != nil {
		t.Error(err)
	}
	if s := StdinOf(cmd.Process.Pid); s.Far != FarUnknown {
		t.Errorf("closed: %+v", s)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if s := StdinOf(cmd.Process.Pid); s.Far != FarUnknown {
		t.Errorf("gone: %+v", s)
	}
}

// Two pipes of one process: the reading end of the one is not the writing end of the other.
func TestHoldersReadersDoNotCount(t *testing.T) {
	r, w := pipes(t)
	copied := dup(t, int(r.Fd()))
	defer copied.Close()
	pid := reader(t, r)
	w.Close()
	if got := StdinOf(pid).Holders(EndsOf([]int{pid, os.Getpid()})); len(got) > 0 {
		t.Errorf("who can only read was named: %v", got)
	}
	if got := (Stdin{}).Holders(EndsOf([]int{os.Getpid()})); got != nil {
		t.Errorf("holders of nothing: %v", got)
	}
}

func TestInode(t *testing.T) {
	for link, want := range map[string]uint64{
		"pipe:[7]": 7, "pipe:[18446744073709551615]": 1<<64 - 1, "socket:[7]": 0, "pipe:[]": 0, "pipe:[-1]": 0, "pipe:[18446744073709551616]": 0, "/pipe:[7]": 0, "": 0,
	} {
		if n, ok := inode(link, "pipe:["); n != want && ok || ok != (want > 0) {
			t.Errorf("%q: %d, %v", link, n, ok)
		}
	}
	if !strings.HasPrefix(proc.Path(7, "fd/0"), "/proc/7/") {
		t.Error(proc.Path(7, "fd/0"))
	}
}
