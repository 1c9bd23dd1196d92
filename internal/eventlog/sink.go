package eventlog

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Logging must not hold up a teardown, and standard error may be a pipe that is full and never read. So no write may block.
// What cannot be written now waits, up to a limit; what is beyond that is dropped and counted. That takes no goroutine,
// and so no thread, which cannot always be started.

// sinkRoom is how much may wait, in bytes.
const sinkRoom = 64 << 10

// flushTime bounds the wait for the last events.
const flushTime = 250 * time.Millisecond

// Sink is a writer that never blocks. It is safe for concurrent use.
type Sink struct {
	mu sync.Mutex // the goroutines of a busy engine log as well
	// file is the log file; -1 for standard error.
	file    int
	waiting []byte
	dropped int
	closed  bool
	// lost makes the line that tells how many events were dropped; nil for text.
	lost func(events int) []byte
}

// openSink opens a log file, or standard error for "".
func openSink(file string) (*Sink, error) {
	s := &Sink{file: -1}
	if file == "" {
		return s, nil
	}
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err == nil {
		s.file = fd
	}
	return s, err
}

// dropReason is why events are dropped.
const dropReason = "log events dropped: their reader was too slow"

// lossLine tells how many events were dropped.
func (s *Sink) lossLine() []byte {
	if s.lost != nil {
		return s.lost(s.dropped)
	}
	return fmt.Appendf(nil, "mcp-tether: %d %s\n", s.dropped, dropReason)
}

// Write implements io.Writer; it never blocks and never fails.
func (s *Sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return len(p), nil
	}
	if len(s.waiting)+len(p) > sinkRoom {
		s.drain()
	}
	if len(s.waiting)+len(p) > sinkRoom {
		s.dropped++
		return len(p), nil
	}
	s.waiting = append(s.waiting, p...)
	s.drain()
	return len(p), nil
}

// drain writes what can be written now. It reports false where there is no descriptor for that.
func (s *Sink) drain() bool {
	if len(s.waiting) == 0 {
		return true
	}
	out, closeOut := s.out()
	if out < 0 {
		return false
	}
	defer closeOut()
	for len(s.waiting) > 0 {
		n, err := writeNow(out, s.waiting)
		if errors.Is(err, unix.EAGAIN) {
			return true
		}
		if err != nil {
			// There is no reader any more.
			n = len(s.waiting)
		}
		s.waiting = s.waiting[n:]
		if len(s.waiting) == 0 && s.dropped > 0 {
			s.waiting = s.lossLine()
			s.dropped = 0
		}
	}
	s.waiting = nil
	return true
}

// out is the descriptor to write to. Standard error is opened anew for each write, where that is possible. Its flags are
// shared with its other holders. And if we kept it open, the gateway could not see that they have closed it. It is -1
// when no descriptor or memory is to be had for that now.
func (s *Sink) out() (fd int, closeOut func()) {
	if s.file >= 0 {
		return s.file, func() {}
	}
	var st unix.Stat_t
	if err := unix.Fstat(2, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO && st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return 2, func() {}
	}
	again, err := proc.Reopen(2, unix.O_WRONLY)
	switch {
	case proc.Starved(err) && isPath(2):
		return -1, func() {}
	case err != nil:
		return 2, func() {}
	}
	return again, func() { _ = unix.Close(again) }
}

// writeSize bounds one write to a descriptor that may block, in bytes: poll(2) promises room for PIPE_BUF (pipe(7)).
const writeSize = 4096

// writeNow writes without blocking, also to sockets and to descriptors that are shared.
func writeNow(fd int, p []byte) (int, error) {
	n, err := unix.SendmsgN(fd, p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if !errors.Is(err, unix.ENOTSOCK) {
		return n, err
	}
	if !takesMore(fd) {
		return 0, unix.EAGAIN
	}
	for {
		n, err := unix.Write(fd, p[:min(len(p), writeSize)])
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// takesMore reports whether a write to a descriptor would not block. poll(2) refuses at a limit of no open files. select(2)
// knows no limit, but takes only descriptors below 1,024.
func takesMore(fd int) bool {
	if fd >= unix.FD_SETSIZE {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		return err == nil && n > 0
	}
	var ready unix.FdSet
	ready.Set(fd)
	n, err := unix.Select(fd+1, nil, &ready, nil, &unix.Timeval{})
	return err == nil && n > 0
}

// Pending reports whether something waits to be written.
func (s *Sink) Pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}

// Again tries to write what waits.
func (s *Sink) Again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
}

// Flush waits for the events to be written, up to flushTime. Later events are lost. It is the last thing that a process does, so
// where there is no descriptor, standard input gives its own.
func (s *Sink) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for limit := time.Now().Add(flushTime); ; {
		if !s.drain() {
			_ = unix.Close(0)
			s.drain()
		}
		if len(s.waiting) == 0 || !time.Now().Before(limit) {
			return
		}
		proc.Sleep(Pause)
	}
}

// Pause is how often to try again to write what waits.
const Pause = 10 * time.Millisecond

// ReleaseStderr closes standard error if it is a pipe. An O_PATH descriptor takes its place; through that the pipe can
// be opened again as long as it has a reader. What cannot be opened again stays: a socket, and the pipe of another
// user. A terminal or a file stays as well: no process waits for its end.
func ReleaseStderr() {
	if !proc.IsPipe(2) {
		return
	}
	again, err := proc.Reopen(2, unix.O_WRONLY)
	if err != nil {
		return
	}
	_ = unix.Close(again)
	_ = proc.HoldPath(2)
}

// isPath reports whether a descriptor stands for a file that it cannot read or write.
func isPath(fd uintptr) bool {
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH != 0
}

// ReopenStderr undoes what a session does with standard error, for a last message before the process exits.
func ReopenStderr() {
	if !isPath(2) {
		return
	}
	if again, err := proc.Reopen(2, unix.O_WRONLY); err == nil {
		_ = unix.Dup3(again, 2, 0)
		_ = unix.Close(again)
	}
}
