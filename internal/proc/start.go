package proc

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child says how a process is started. Its standard streams are the caller's, untouched, unless others are given; so are
// all other inherited descriptors and the working directory.
type Child struct {
	// Stdin, Stdout and Stderr are descriptors to have in place of the caller's; 0 leaves them.
	Stdin, Stdout, Stderr int
	// Path is the file to execute; Argv[0] may differ.
	Path string
	Argv []string
	Env  []string
	// InPlaceOf are pids of ours. A variable of Env that is meant for one of them is meant for the child (readdress).
	InPlaceOf []int
	// NewGroup makes the child lead a process group, NewSession a session (and a group).
	NewGroup, NewSession bool
	// Group is a process group of the caller's session to join; 0 leaves the child in the caller's.
	Group int
	// DiesWithThread has the kernel SIGKILL the child when the starting thread ends (PR_SET_PDEATHSIG). Set it only on
	// a thread that lives as long as the process.
	DiesWithThread bool
	// CgroupFD is an open cgroup v2 directory in which the child is created (CLONE_INTO_CGROUP, Linux 5.7), or -1.
	CgroupFD int
	// CgroupProcs is that cgroup's cgroup.procs, open for writing, through which the child moves itself before it
	// executes anything; or -1. It is for kernels and seccomp filters that refuse clone3.
	CgroupProcs int
	// Adopts puts a copy of the caller between it and the child. Orphans of the child fall to the copy, which ends when nothing
	// is left below it. It is what Start returns the pid of, and what NewSession and NewGroup make a leader.
	Adopts bool
	// Inherited is what the child will find: signal mask, ignored signals, closed streams, limit of open files.
	Inherited AtExec
	// Until are descriptors that the caller waits for as well. A child may be held up before it executes, by a signal
	// that stops it or by a file system that does not answer. Once one of Until is ready, Start waits no longer than
	// execTimeout for such a child. The child then counts as started. If it fails later, its exit code is 253.
	Until []unix.PollFd
	// Limit is how long the exec may take, 0 for any time. A child that takes longer is killed.
	Limit time.Duration
}

// errHeldUp says that a child was killed because it had not executed anything within its limit.
var errHeldUp = errors.New("it is held up before the exec")

// ErrNotMoved says that a child could not be put into its cgroup. After any other error the cgroup is not to blame.
var ErrNotMoved = errors.New("it cannot be put into its cgroup")

// execTimeout is longer than any exec takes, unless something holds it up.
const execTimeout = time.Second

// Start starts the child and returns its pid. The error is the errno of fork or exec. It is ErrNotMoved as well if the
// move to the cgroup has failed, or clone3 with CgroupFD.
func Start(c Child) (int, error) {
	pid, err := start(c)
	if errors.Is(err, unix.ENOEXEC) {
		// A script without "#!": execvp(3), which the gateway would have used, hands it to the shell.
		c.Argv = append([]string{"/bin/sh", c.Path}, c.Argv[1:]...)
		c.Path = "/bin/sh"
		return start(c)
	}
	return pid, err
}

func start(c Child) (int, error) {
	img, err := newImage(c)
	if err != nil {
		return 0, err
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("make the start pipe: %w", err)
	}
	defer unix.Close(p[0])
	img.report = uintptr(p[1])
	began := time.Now()
	pid, errno := img.fork()
	runtime.KeepAlive(img)
	unix.Close(p[1])
	if errno != 0 {
		return 0, startError(errno, c.CgroupFD >= 0)
	}
	switch {
	case awaitExec(p[0], c):
	case c.Limit > 0 && time.Since(began) >= c.Limit:
		killChild(int(pid))
		return 0, fmt.Errorf("%w for %v", errHeldUp, c.Limit)
	default:
		return int(pid), nil
	}
	if errno, step := readErrno(p[0]); errno != 0 {
		endFailed(int(pid))
		return 0, startError(errno, step == moving)
	}
	return int(pid), nil
}

// endFailed waits for a child whose exec has failed. It has nothing more to do, but it may be stopped. Another goroutine that
// waits for all children may have waited for it already. Then the pid may be another process's.
func endFailed(pid int) {
	ended, err := HasExited(pid)
	if err != nil {
		return
	}
	if !ended {
		_ = SignalChild(pid, unix.SIGKILL)
	}
	_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
}

func startError(errno syscall.Errno, moved bool) error {
	if moved {
		return fmt.Errorf("%w: %w", ErrNotMoved, errno)
	}
	return errno
}

// awaitExec waits until the pipe can be read, and reports false if it gives up.
func awaitExec(pipe int, c Child) bool {
	if len(c.Until) == 0 && c.Limit == 0 {
		return true
	}
	fds := append([]unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}, c.Until...)
	poll(fds, c.Limit)
	if fds[0].Revents == 0 {
		// This is done even when the time is up: this process may have been stopped together with the child.
		poll(fds[:1], execTimeout)
	}
	return fds[0].Revents != 0
}

// poll waits as Poll does, also across signals; a limit of 0 is none.
func poll(fds []unix.PollFd, limit time.Duration) {
	left := time.Duration(-1)
	for deadline := time.Now().Add(limit); ; {
		if limit > 0 {
			left = max(time.Until(deadline), 0)
		}
		if Poll(fds, left) > 0 || left == 0 {
			return
		}
	}
}

// killChild kills a child that was not waited for yet. It waits for the end up to execTimeout: no signal ends a child
// in a hung system call, and one that is traced may stay as a zombie.
func killChild(pid int) {
	_ = SignalChild(pid, unix.SIGKILL)
	for deadline := time.Now().Add(execTimeout); ; Sleep(pollPause) {
		last := !time.Now().Before(deadline) // this process may have been stopped meanwhile
		if ended, err := HasExited(pid); ended || err != nil {
			_, _ = Wait(pid)
			return
		}
		if last {
			return
		}
	}
}

// KillGroup is killChild for a child that leads a process group. It also waits for those of the group that fall to us when
// the child has ended (Adopts).
func KillGroup(leader int) {
	_ = unix.Kill(-leader, unix.SIGKILL)
	for left := execTimeout / pollPause; left > 0; {
		pid, err := unix.Wait4(-leader, nil, unix.WNOHANG|unix.WALL, nil)
		if err != nil {
			return
		}
		if pid == 0 {
			Sleep(pollPause)
			left--
		}
	}
}

// readErrno waits for the exec, which closes the pipe. If that fails, or a step before it, errno and step come first.
func readErrno(fd int) (errno syscall.Errno, step byte) {
	var b [2]byte
	for {
		n, err := unix.Read(fd, b[:])
		if err == unix.EINTR {
			continue
		}
		if n != len(b) {
			return 0, 0
		}
		return syscall.Errno(b[0]), b[1]
	}
}

// LookPath finds the file that execvp(3) would execute. The error is ENOENT when there is none, EACCES when what was
// found may not be executed.
func LookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	if name == "" {
		return "", fmt.Errorf("command %q: %w", name, unix.ENOENT)
	}
	denied := false
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		err := executable(dir + "/" + name)
		if err == nil {
			return dir + "/" + name, nil
		}
		denied = denied || errors.Is(err, unix.EACCES)
	}
	if denied {
		return "", fmt.Errorf("command %s in PATH: %w", name, unix.EACCES)
	}
	return "", fmt.Errorf("command %s is not in PATH: %w", name, unix.ENOENT)
}

func executable(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return fmt.Errorf("command %s: %w", file, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("command %s is not a regular file: %w", file, unix.EACCES)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, 0); err != nil {
		return fmt.Errorf("execute command %s: %w", file, err)
	}
	return nil
}
