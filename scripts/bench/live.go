package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// live is one running session. Its streams are plain blocking descriptors: the runtime's poller would add its own
// delays to what is measured. So would the requests to a gateway of the fixture.
type live struct {
	pid     int
	in, out *os.File
	spawned time.Time
	lines   *bufio.Scanner // of out; nil before the first readLine
}

// link says what the streams between gateway and server are made of.
type link string

const (
	pipes       link = "pipes"
	socketpairs link = "socketpairs" // what Node calls pipes
)

// start spawns argv with its stdin and stdout in our hands. The clock starts right before the fork.
func start(argv []string, l link) (*live, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", argv[0], err)
	}
	theirIn, in, inErr := newPair(l)
	out, theirOut, outErr := newPair(l)
	s := &live{in: in, out: out}
	err = errors.Join(inErr, outErr)
	if err == nil {
		err = s.fork(path, argv, theirIn, theirOut)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		s.letGo()
	}
	return s, err
}

// fork starts s as path.
func (s *live) fork(path string, argv []string, in, out *os.File) (err error) {
	s.spawned = time.Now()
	s.pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{in.Fd(), out.Fd(), 2}})
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil
}

// newPair returns a reading and a writing end.
func newPair(l link) (r, w *os.File, err error) {
	var fds [2]int
	if l == socketpairs {
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	} else {
		err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make %s: %w", l, err)
	}
	return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w"), nil
}

// firstByte waits for the server's first byte and says when it came.
func (s *live) firstByte() (time.Time, error) {
	if !ready(int(s.out.Fd()), unix.POLLIN|unix.POLLHUP, s.spawned, endWait) {
		return time.Time{}, fmt.Errorf("wait for the first byte of pid %d: none after %s", s.pid, endWait)
	}
	_, err := s.out.Read(make([]byte, 1))
	at := time.Now()
	if err != nil {
		return at, fmt.Errorf("read the first byte of pid %d: %w", s.pid, err)
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

func (s *live) letGo() { _, _ = s.in.Close(), s.out.Close() }

// endWait is far beyond every grace period: a session that takes longer hangs.
const endWait = 30 * time.Second

func (s *live) wait() error {
	if dead, err := stage.DiesWithin(s.pid, endWait); err != nil || !dead {
		return fmt.Errorf("wait for pid %d: it has not ended after %s (%w)", s.pid, endWait, err)
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
