package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// live is one running session. Its streams are plain blocking descriptors: the runtime's poller would add its own
// delays to what is measured.
type live struct {
	pid     int
	in, out int
	spawned time.Time
	streams [2]int         // as the server has them, until it is started
	lines   *bufio.Scanner // of out; nil before the first readLine
}

// link says what the streams between gateway and server are made of.
type link string

const (
	pipes       link = "pipes"
	socketpairs link = "socketpairs" // what Node calls pipes
)

// start spawns argv with its stdin and stdout in our hands. The clock starts right before the fork.
func (b *bench) start(argv []string, l link) (*live, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", argv[0], err)
	}
	s, err := newStreams(l)
	if err != nil {
		return nil, err
	}
	return s, b.fork(s, path, argv)
}

var errStopping = errors.New("the bench is being stopped")

// fork starts s as path.
func (b *bench) fork(s *live, path string, argv []string) error {
	defer closeAll(s.streams[:]...)
	files := []uintptr{uintptr(s.streams[0]), uintptr(s.streams[1]), 2}
	b.starting.Lock()
	defer b.starting.Unlock()
	if b.stopping {
		return errStopping
	}
	var err error
	s.spawned = time.Now()
	if s.pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: b.env, Files: files}); err != nil {
		s.letGo()
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil
}

func newStreams(l link) (*live, error) {
	in, err := newPair(l)
	if err != nil {
		return nil, err
	}
	out, err := newPair(l)
	if err != nil {
		closeAll(in[:]...)
		return nil, err
	}
	return &live{in: in[1], out: out[0], streams: [2]int{in[0], out[1]}}, nil
}

// newPair returns a reading and a writing end.
func newPair(l link) ([2]int, error) {
	var fds [2]int
	var err error
	if l == socketpairs {
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	} else {
		err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	}
	if err != nil {
		return fds, fmt.Errorf("make %s: %w", l, err)
	}
	return fds, nil
}

// firstByte waits for the server's first byte and says when it came.
func (s *live) firstByte() (time.Time, error) {
	if !ready(s.out, unix.POLLIN|unix.POLLHUP, s.spawned, endWait) {
		return time.Time{}, fmt.Errorf("wait for the first byte of pid %d: none after %s", s.pid, endWait)
	}
	n, err := readSome(s.out, make([]byte, 1))
	at := time.Now()
	if err != nil {
		return at, err
	}
	if n == 0 {
		return at, fmt.Errorf("read the first byte of pid %d: %w", s.pid, io.ErrUnexpectedEOF)
	}
	return at, nil
}

// end ends the session as a gateway does that closes the streams and then sends SIGTERM. It waits for the process that
// it started.
func (s *live) end() error {
	s.letGo()
	s.terminate()
	return s.wait()
}

// terminate is safe until wait has returned: a process not yet reaped keeps its pid.
func (s *live) terminate() { _ = unix.Kill(s.pid, unix.SIGTERM) }

func (s *live) letGo() {
	closeAll(s.in, s.out)
	s.in, s.out = -1, -1
}

// endWait is far beyond every grace period: a session that takes longer hangs.
const endWait = 30 * time.Second

func (s *live) wait() error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return fmt.Errorf("open pid %d: %w", s.pid, err)
	}
	defer unix.Close(fd)
	if !ready(fd, unix.POLLIN, time.Now(), endWait) {
		return fmt.Errorf("wait for pid %d: it has not ended after %s", s.pid, endWait)
	}
	if _, err := unix.Wait4(s.pid, nil, 0, nil); err != nil {
		return fmt.Errorf("wait for pid %d: %w", s.pid, err)
	}
	return nil
}

// ready waits until poll reports one of events on fd.
func ready(fd int, events int16, from time.Time, limit time.Duration) bool {
	for left := limit; left > 0; left = limit - time.Since(from) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		if n == 1 && err == nil && fds[0].Revents&events != 0 {
			return true
		}
	}
	return false
}

func readSome(fd int, buf []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read from the server: %w", err)
		}
		return n, nil
	}
}

func readFull(fd int, buf []byte) error {
	if _, err := io.ReadFull(descriptor(fd), buf); err != nil {
		return fmt.Errorf("read from the server: %w", err)
	}
	return nil
}

func writeAll(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := syscall.Write(fd, buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write to the server: %w", err)
		}
		buf = buf[n:]
	}
	return nil
}

// descriptor reads and writes without the runtime's poller.
type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	n, err := readSome(int(d), b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (d descriptor) Write(b []byte) (int, error) {
	if err := writeAll(int(d), b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
