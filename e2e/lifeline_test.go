package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// lifeline is a FIFO that every process of a session inherits open for writing. None writes to it: the end of file is
// the news that the last one is dead.
type lifeline struct {
	path string
	r    *os.File
}

func newLifeline(t *testing.T, path string) *lifeline {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &lifeline{path: path, r: r}
}

// wait returns when no process holds the lifeline.
func (l *lifeline) wait(limit time.Duration) error {
	_ = l.r.SetReadDeadline(time.Now().Add(limit))
	var b [1]byte
	_, err := l.r.Read(b[:])
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("somebody wrote to the lifeline")
	}
	return fmt.Errorf("lifeline: %w", err)
}

// held tells whether any process holds the lifeline now.
func (l *lifeline) held() bool {
	raw, err := l.r.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	_ = raw.Control(func(fd uintptr) {
		_, err := unix.Read(int(fd), make([]byte, 1))
		alive = errors.Is(err, unix.EAGAIN)
	})
	return alive
}

// waitFree returns when no process holds a lock on the file. A file that is not there is free.
func waitFree(path string, limit time.Duration) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	locked := make(chan error, 1)
	go func() {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		unlock(f) // before the news: a test that hears it may look for locks, and ours is none
		locked <- err
	}()
	select {
	case err := <-locked:
		return err
	case <-time.After(limit):
		return fmt.Errorf("%s is still locked", filepath.Base(path))
	}
}

// unlock lets go of a lock at once. A close alone does not: another test may fork at this moment, and until it executes
// something the copy holds the file open.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	_ = f.Close()
}

// held tells whether any process holds a lock on the file now.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer unlock(f)
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// awaitExit returns when the process, not a child of ours, is dead. No such process counts as dead.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(testkit.Patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 {
			t.Fatalf("process %d does not end: %v", pid, err)
		}
		return
	}
}

// proc is a process as a person would name it.
type proc struct {
	pid, ppid int
	state     string
	args      string
}

func (p proc) String() string {
	return fmt.Sprintf("pid %d, parent %d, %s: %s", p.pid, p.ppid, p.state, p.args)
}

// holders lists the processes, but for this one, that have the file open. A process with hundreds of them is one.
func holders(path string) []proc {
	self := describe(os.Getpid())
	fds, _ := filepath.Glob("/proc/[0-9]*/fd")
	var found []proc
	for _, dir := range fds {
		pid, _ := strconv.Atoi(strings.Split(dir, "/")[2])
		if pid == self.pid || !hasOpen(dir, path) {
			continue
		}
		// What another test has forked has all that we have open, until it executes something: maybe since we looked. At that
		// moment it has no arguments.
		p := describe(pid)
		forked := p.args == self.args || p.args == "" && p.ppid == self.pid
		if !forked && hasOpen(dir, path) {
			found = append(found, p)
		}
	}
	return found
}

func hasOpen(dir, path string) bool {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if target, _ := os.Readlink(filepath.Join(dir, e.Name())); target == path {
			return true
		}
	}
	return false
}

func describe(pid int) proc {
	p := proc{pid: pid}
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	p.args = strings.ReplaceAll(strings.TrimRight(string(args), "\x00"), "\x00", " ")
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndexByte(string(stat), ')'); i > 0 {
		_, _ = fmt.Sscan(string(stat[i+1:]), &p.state, &p.ppid)
	}
	return p
}

var leafName = regexp.MustCompile(`/mcp-tether-([0-9a-f]{16})\b`)

// leafID is the session in whose leaf the process is, or "".
func (p proc) leafID() string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid))
	if found := leafName.FindSubmatch(b); found != nil {
		return string(found[1])
	}
	return ""
}

// cgroupLeaf is the session's directory below our own cgroup, or "".
func cgroupLeaf(id string) string {
	own, err := testkit.OwnCgroup()
	if err != nil {
		return ""
	}
	leaf := filepath.Join(own, "mcp-tether-"+id)
	if _, err := os.Stat(leaf); err != nil {
		return ""
	}
	return leaf
}
