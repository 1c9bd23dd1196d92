package cgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// parent is the current cgroup, below which the tests make theirs.
func parent(t *testing.T) string {
	t.Helper()
	dir, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Cgroup, err != nil, fmt.Sprintf("a cgroup v2 hierarchy that can be written (%v)", err))
	return dir
}

// newLeaf makes a leaf that is gone after the test, whatever it has left in it.
func newLeaf(t *testing.T) *Leaf {
	t.Helper()
	return leafNamed(t, fmt.Sprintf("mcp-tether-test-%d-%s", os.Getpid(), t.Name()))
}

func leafNamed(t *testing.T, name string) *Leaf {
	t.Helper()
	l, err := Create(parent(t), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stage.KillCgroup(l.Dir)
		l.awaitEmpty(t)
		if err := l.RemoveSoon(int(testkit.Patience / time.Millisecond)); err != nil {
			t.Error(err)
		}
		l.Close()
	})
	return l
}

// awaitEmpty waits on cgroup.events, which polls POLLPRI when "populated" changes.
func (l *Leaf) awaitEmpty(t *testing.T) {
	t.Helper()
	fd, err := unix.Open(l.Dir+"/cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	for deadline := time.Now().Add(testkit.Patience); ; {
		var b [64]byte
		_, _ = unix.Pread(fd, b[:], 0)
		if full, err := l.Populated(); err != nil || !full {
			return
		}
		left := time.Until(deadline)
		if left <= 0 {
			t.Fatalf("%s is still populated", l.Dir)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int(left.Milliseconds()))
	}
}

// cat is a process in the leaf that rests until its standard input ends or it is killed.
type cat struct {
	cmd *exec.Cmd
	in  io.Closer
	out io.Reader
}

func (l *Leaf) start(t *testing.T) *cat {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: cgroupFD(t, l.Dir)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start in %s: %v", l.Dir, err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return &cat{cmd, in, out}
}

func cgroupFD(t *testing.T, dir string) int {
	t.Helper()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l.FD()
}

// ended waits for the process and says how it ended.
func (c *cat) ended(t *testing.T) string {
	t.Helper()
	if _, err := io.Copy(io.Discard, c.out); err != nil {
		t.Error(err)
	}
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.String()
}

func TestLeaf(t *testing.T) {
	l := newLeaf(t)
	populated(t, l, false)
	a, b := l.start(t), l.start(t)
	populated(t, l, true)
	pids, err := l.Procs()
	slices.Sort(pids)
	want := []int{a.cmd.Process.Pid, b.cmd.Process.Pid}
	slices.Sort(want)
	if err != nil || !slices.Equal(pids, want) {
		t.Errorf("procs %v, %v; want %v", pids, err, want)
	}
	for _, c := range []*cat{a, b} {
		if !l.Has(c.cmd.Process.Pid) {
			t.Errorf("%d is not said to be inside", c.cmd.Process.Pid)
		}
	}
	if err := l.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("removed with processes: %v, want EBUSY", err)
	}
	a.in.Close()
	if got := a.ended(t); got != "exit status 0" {
		t.Errorf("a: %s", got)
	}
	populated(t, l, true)
	l.end(t)
	if got := b.ended(t); got != "signal: killed" {
		t.Errorf("b: %s", got)
	}
	l.awaitEmpty(t)
	populated(t, l, false)
	if err := l.RemoveSoon(int(testkit.Patience / time.Millisecond)); err != nil {
		t.Error(err)
	}
	populated(t, l, false) // gone is empty
	if err := l.Remove(); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

// end kills all by Kill.
func (l *Leaf) end(t *testing.T) {
	t.Helper()
	if err := l.Kill(); err != nil {
		t.Error(err)
	}
	stage.KillCgroup(l.Dir)
}

func populated(t *testing.T, l *Leaf, want bool) {
	t.Helper()
	if got, err := l.Populated(); got != want || err != nil {
		t.Errorf("populated %v, %v; want %v", got, err, want)
	}
}

// What another process has opened serves to kill and to remove a leaf, when nothing more can be opened.
func TestLeafAdopted(t *testing.T) {
	made := newLeaf(t)
	l := Adopt(made.Dir, made.FD(), made.KillFD())
	made.start(t)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: files.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, control := os.ReadFile(l.Dir + "/cgroup.procs")
	killed, removed := l.Kill(), l.RemoveSoon(int(testkit.Patience/time.Millisecond))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if control == nil || killed != nil || removed != nil {
		t.Errorf("a file was opened: %v; kill: %v; remove: %v", control, killed, removed)
	}
}

// A server may make cgroups of its own below its leaf: what is in them belongs to it, and they go with it.
func TestLeafNested(t *testing.T) {
	l := newLeaf(t)
	inner := &Leaf{Dir: l.Dir + "/a/b"}
	for _, dir := range []string{"/a", "/a/b", "/a/c", "/d"} {
		if err := os.Mkdir(l.Dir+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := inner.start(t)
	pid := c.cmd.Process.Pid
	populated(t, l, true)
	if !l.Has(pid) || !inner.Has(pid) {
		t.Error("the inner process is not said to be inside")
	}
	if pids, err := l.Procs(); err != nil || !slices.Equal(pids, []int{pid}) {
		t.Errorf("procs %v, %v; want %d", pids, err, pid)
	}
	l.end(t)
	if got := c.ended(t); got != "signal: killed" {
		t.Error(got)
	}
	l.awaitEmpty(t)
	if err := l.RemoveSoon(int(testkit.Patience / time.Millisecond)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

func TestLeafHasOnlyItsOwn(t *testing.T) {
	l := newLeaf(t)
	longer := leafNamed(t, l.Dir[len(parent(t))+1:]+"0")
	c := longer.start(t)
	if l.Has(c.cmd.Process.Pid) || l.Has(os.Getpid()) || l.Has(1) || l.Has(1<<30) {
		t.Error("has a process of another cgroup, or nobody")
	}
}

// A process to keep is moved out.
func TestLeafExpels(t *testing.T) {
	l := newLeaf(t)
	pid := l.start(t).cmd.Process.Pid
	if !l.Has(pid) {
		t.Error("it is not inside")
	}
	if err := l.Expel(pid); err != nil {
		t.Error(err)
	}
	if l.Has(pid) {
		t.Error("it is still inside")
	}
	populated(t, l, false)
}

// A process to keep may have a cgroup of its own by the end, such as a systemd scope. It is not moved out of that.
func TestLeafExpelsOnlyItsOwn(t *testing.T) {
	l := newLeaf(t)
	other, err := Create(parent(t), fmt.Sprintf("scope-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer func() {
		stage.KillCgroup(other.Dir)
		other.awaitEmpty(t)
		if err := other.RemoveSoon(int(testkit.Patience / time.Millisecond)); err != nil {
			t.Error(err)
		}
	}()
	p := other.start(t).cmd.Process.Pid
	if err := l.Expel(p); err != nil {
		t.Error(err)
	}
	if !other.Has(p) {
		t.Error("it was moved out of another cgroup")
	}
}

// A process to keep may have started a session, whose leaf is below. It is moved out of that too.
func TestLeafExpelsFromBelow(t *testing.T) {
	l := newLeaf(t)
	for _, name := range []string{"/own", "/mcp-tether-other", "/mcp-tether-other/deep"} {
		if err := os.Mkdir(l.Dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
		c := (&Leaf{Dir: l.Dir + name}).start(t)
		if err := l.Remove(); !errors.Is(err, unix.EBUSY) {
			t.Errorf("removed with a process below: %v, want EBUSY", err)
		}
		if err := l.Expel(c.cmd.Process.Pid); err != nil || l.Has(c.cmd.Process.Pid) {
			t.Errorf("%s: still inside, %v", name, err)
		}
	}
	if err := l.Remove(); err != nil {
		t.Error(err)
	}
}

func TestCreateErrors(t *testing.T) {
	l := newLeaf(t)
	name := l.Dir[len(parent(t))+1:]
	if _, err := Create(parent(t), name); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a name that is taken: %v, want EEXIST", err)
	}
	if _, err := Create(l.Dir+"/none", "x"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("without a parent: %v, want ENOENT", err)
	}
	if _, err := Open(l.Dir + "/none"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("open none: %v, want ENOENT", err)
	}
	if _, err := Open(l.Dir + "/cgroup.procs"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("open a file: %v, want ENOTDIR", err)
	}
	if got := (*Leaf)(nil).FD(); got != -1 {
		t.Errorf("descriptor of no leaf: %d", got)
	}
}

// No process can be put into a child of a threaded cgroup: such a leaf is refused at once and leaves no directory.
func TestCreateBelowThreaded(t *testing.T) {
	l := newLeaf(t)
	threaded := l.Dir + "/threaded"
	if err := os.Mkdir(threaded, 0o755); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(threaded+"/cgroup.type", []byte("threaded"), 0)
	testkit.Lacks(t, testkit.Kernel, err != nil, fmt.Sprintf("threaded cgroups (%v)", err))
	if _, err := Create(threaded, "x"); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("%v, want EOPNOTSUPP", err)
	}
	if _, err := os.Stat(threaded + "/x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// Current finds the directory in which the kernel lists this process.
func TestCurrent(t *testing.T) {
	b, err := os.ReadFile(parent(t) + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(b)), strconv.Itoa(os.Getpid())) {
		t.Errorf("%s does not list %d", parent(t), os.Getpid())
	}
}
