package display

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Sink is a writer that never blocks: logging must not hold up a teardown, and standard error may be a pipe that is full
// and never read. What cannot be written at once is dropped and counted. It is safe for concurrent use.
type Sink struct {
	mu sync.Mutex // the goroutines of a busy engine log as well
	// fd is a descriptor of our own to which no write blocks; or standard error, of which the flags are not ours.
	fd      int
	dropped int
	// json says that each line is an object.
	json bool
}

// sharedWrite bounds one write to standard error itself, in bytes: poll(2) promises room for PIPE_BUF (pipe(7)).
const sharedWrite = 4096

// dropReason is why events are dropped.
const dropReason = "log events dropped: their reader was too slow"

// openSink opens a log file, or standard error for "".
func openSink(file string) (*Sink, error) {
	if file == "" {
		return Stderr(), nil
	}
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	return &Sink{fd: fd}, err
}

// Stderr writes to standard error. A pipe or a terminal is opened once more, where that is possible: O_NONBLOCK on what was
// inherited would reach its other holders as well.
func Stderr() *Sink {
	var st unix.Stat_t
	if unix.Fstat(2, &st) == nil && (st.Mode&unix.S_IFMT == unix.S_IFIFO || st.Mode&unix.S_IFMT == unix.S_IFCHR) {
		if own, err := proc.Reopen(2, unix.O_WRONLY); err == nil {
			return &Sink{fd: own}
		}
	}
	return &Sink{fd: 2}
}

// Write implements io.Writer; it never blocks and never fails.
func (s *Sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped > 0 && s.writeNow(s.lossLine()) {
		s.dropped = 0
	}
	if s.dropped > 0 || !s.writeNow(p) {
		s.dropped++
	}
	return len(p), nil
}

// lossLine tells how many events were dropped.
func (s *Sink) lossLine() []byte {
	if s.json {
		return fmt.Appendf(nil, `{"level":"warn","events":%d,"message":"%s"}`+"\n", s.dropped, dropReason)
	}
	return fmt.Appendf(nil, "mcp-tether: %d %s\n", s.dropped, dropReason)
}

// writeNow writes once, and reports whether there was room. A socket takes what fits without blocking, whoever holds it.
func (s *Sink) writeNow(p []byte) bool {
	_, err := unix.SendmsgN(s.fd, p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if !errors.Is(err, unix.ENOTSOCK) {
		return err == nil
	}
	if s.fd == 2 {
		ready := []unix.PollFd{{Fd: 2, Events: unix.POLLOUT}}
		if n, err := unix.Poll(ready, 0); err != nil || n == 0 {
			return false
		}
		p = p[:min(len(p), sharedWrite)]
	}
	_, err = unix.Write(s.fd, p)
	return err == nil
}
