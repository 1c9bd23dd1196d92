package supervise

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Logging must not hold up a teardown: standard error may be a pipe that nobody reads. Events go through a short queue
// to a goroutine of its own; what does not fit is dropped and counted. At the end the writer gets a moment to finish and
// is left behind if it cannot.

// queueLength is how many events may wait.
const queueLength = 256

// flushTime bounds the wait for the last events.
const flushTime = 250 * time.Millisecond

// sink is the asynchronous writer. Its goroutine starts with the first event.
type sink struct {
	fd      int
	mu      sync.Mutex // of the next two; the goroutines beside the loop log as well
	queue   chan []byte
	closed  bool
	done    chan struct{}
	dropped atomic.Int64
}

// Write implements io.Writer; it never blocks and never fails.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return len(p), nil
	}
	if s.queue == nil {
		s.queue, s.done = make(chan []byte, queueLength), make(chan struct{})
		go s.drain()
	}
	select {
	case s.queue <- bytes.Clone(p):
	default:
		s.dropped.Add(1)
	}
	return len(p), nil
}

func (s *sink) drain() {
	defer close(s.done)
	for p := range s.queue {
		writeAll(s.fd, p)
		if n := s.dropped.Swap(0); n > 0 {
			writeAll(s.fd, fmt.Appendf(nil, "mcp-tether: %d log events dropped: their reader was too slow\n", n))
		}
	}
}

func writeAll(fd int, p []byte) {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		switch err {
		case nil:
			p = p[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			// The server made the shared pipe non-blocking; wait until there is room.
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		default:
			return
		}
	}
}

// flush waits for the queue to be written, up to flushTime. What follows is lost.
func (s *sink) flush() {
	s.mu.Lock()
	s.closed = true
	if s.queue == nil {
		s.mu.Unlock()
		return
	}
	close(s.queue)
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-time.After(flushTime):
	}
}

// openLog makes the logger. The error says which file could not be opened.
func openLog(o LogOptions) (zerolog.Logger, *sink, error) {
	s := &sink{fd: 2}
	if o.File != "" {
		fd, err := unix.Open(o.File, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return zerolog.Nop(), s, fmt.Errorf("open log file %s: %w", o.File, err)
		}
		s.fd = fd
	}
	var w io.Writer = s
	if !o.JSON {
		w = zerolog.ConsoleWriter{Out: s, NoColor: true, TimeFormat: time.DateTime}
	}
	return zerolog.New(w).Level(o.Level).With().Timestamp().Logger(), s, nil
}
