package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Lifeline is a FIFO that every process of a session inherits open for writing. None writes to it: the end of file is
// the news that the last one is dead.
type Lifeline struct {
	Path string
	r    *os.File
}

// NewLifeline makes a lifeline that processes of any user may hold.
func NewLifeline(t T, path string) *Lifeline {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatalf("%v", err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &Lifeline{Path: path, r: r}
}

// Wait returns when no process holds the lifeline, or with an error when the limit is over.
func (l *Lifeline) Wait(limit time.Duration) error {
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

// Close lets go of it here. Who holds it may find that nobody listens.
func (l *Lifeline) Close() { _ = l.r.Close() }

// Held tells whether any process holds the lifeline now.
func (l *Lifeline) Held() bool {
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

// WaitFree returns when no process holds a lock on the file. A file that is not there is free.
func WaitFree(path string, limit time.Duration) error {
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
		Unlock(f) // before the news: a test that hears it may look for locks, and ours is none
		locked <- err
	}()
	select {
	case err := <-locked:
		return err
	case <-time.After(limit):
		return fmt.Errorf("%s is still locked", filepath.Base(path))
	}
}

// Unlock lets go of a lock at once. A close alone does not: another test may fork at this moment, and until it executes
// something the copy holds the file open.
func Unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	_ = f.Close()
}

// Held tells whether any process holds a lock on the file now.
func Held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer Unlock(f)
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// AwaitExit returns when the process, which need not be a child, is dead. No such process counts as dead.
func AwaitExit(t T, pid int) {
	t.Helper()
	if dead, err := DiesWithin(pid, Patience); err != nil || !dead {
		t.Fatalf("process %d does not end: %v", pid, err)
	}
}

// Outlasting lists those of the processes that are not dead in time.
func Outlasting(limit time.Duration, all ...Proc) (left []Proc) {
	for deadline := time.Now().Add(limit); len(all) > 0; all = all[1:] {
		if !all[0].Lives() {
			continue
		}
		if dead, err := DiesWithin(all[0].PID, time.Until(deadline)); err != nil || !dead {
			left = append(left, all[0])
		}
	}
	return left
}

// DiesWithin tells whether a process has died in time. Its pidfd is readable from then on, zombie or not.
func DiesWithin(pid int, limit time.Duration) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	for deadline := time.Now().Add(limit); ; {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n == 1, err
		}
	}
}

// lookAgain is the time between two looks at what announces no change. It is short compared with what is waited for,
// and leaves the processor to that. After a slow look, through all of /proc for instance, the time is longer: ten times
// the look, and lookSeldom at most.
const (
	lookAgain  = 2 * time.Millisecond
	lookSeldom = 20 * time.Millisecond
)

// Until looks until something is true that no event announces, such as a change in the process table. It fails when
// Patience is at an end. What announces its own change is waited for instead (a pipe, a lock, a pidfd).
func Until(t T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; {
		began := time.Now()
		if is() {
			return
		}
		now := time.Now()
		if now.After(deadline) {
			t.Fatalf("not in %v: %s", Patience, what)
		}
		time.Sleep(min(max(10*now.Sub(began), lookAgain), lookSeldom))
	}
}
