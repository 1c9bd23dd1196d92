package relay

import (
	"errors"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Stream is one end of a stream as the relay uses it. It never blocks, and does not set O_NONBLOCK on an open file
// description that other processes share.
type Stream struct {
	fd int // -1 when closed
	// ours says that close closes the descriptor; the caller's own descriptors stay open.
	ours bool
	// socket: flags are passed with each call. most bounds a write that could block, in bytes; 0 where no write blocks.
	socket bool
	most   int
	pipe   bool
}

func closedStream() Stream { return Stream{fd: -1} }

// ReadEnd is a descriptor of the caller's to read from. A read after poll(2) has reported input does not block, because
// no other process reads from it.
func ReadEnd(fd int) Stream {
	s, _ := streamOf(fd)
	return s
}

// WriteEnd is a descriptor of the caller's to write to. A pipe is opened once more where that is possible, because a
// write that never blocks needs an open file description of our own.
func WriteEnd(fd int) Stream {
	s, ok := streamOf(fd)
	if !ok || !s.pipe {
		return s
	}
	if again, err := proc.Reopen(fd, unix.O_WRONLY); err == nil {
		s.fd, s.ours = again, true
	} else {
		s.most = pipeBuf
	}
	return s
}

// Own is a descriptor of an open file description of our own. No read or write of it blocks, and Close closes it.
func Own(fd int) Stream {
	_ = unix.SetNonblock(fd, true)
	return Stream{fd: fd, ours: true}
}

// FD is the descriptor; -1 when closed.
func (s Stream) FD() int { return s.fd }

// pipeBuf is PIPE_BUF, in bytes: a pipe that poll(2) calls writable takes that much without blocking (pipe(7)).
const pipeBuf = 4096

func streamOf(fd int) (Stream, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return closedStream(), false
	}
	kind := st.Mode & unix.S_IFMT
	return Stream{fd: fd, socket: kind == unix.S_IFSOCK, pipe: kind == unix.S_IFIFO}, true
}

// Pipe makes a pipe. Our end does not block; theirs does, as a server expects.
func Pipe(oursReads bool) (ours Stream, theirs int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return closedStream(), -1, err
	}
	mine, their := p[1], p[0]
	if oursReads {
		mine, their = p[0], p[1]
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return closedStream(), -1, err
	}
	return Stream{fd: mine, ours: true, pipe: true}, their, nil
}

// Read returns 0 and false when there is nothing now; end is true when nothing will come any more.
func (s Stream) Read(b []byte) (n int, end bool) {
	var err error
	if s.socket {
		n, _, err = unix.Recvfrom(s.fd, b, unix.MSG_DONTWAIT)
	} else {
		n, err = unix.Read(s.fd, b)
	}
	switch {
	case err == nil:
		return n, n == 0
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, false
	}
	return 0, true
}

// Write returns how much was taken; end is true when nothing is taken any more.
func (s Stream) Write(b []byte) (n int, end bool) {
	if s.most > 0 {
		// Not every write follows a poll: the relay adds answers of its own.
		if proc.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}, 0) == 0 {
			return 0, false
		}
		b = b[:min(len(b), s.most)]
	}
	var err error
	if s.socket {
		n, err = unix.SendmsgN(s.fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	} else {
		n, err = unix.Write(s.fd, b)
	}
	switch {
	case err == nil:
		return n, false
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, false
	}
	return 0, true
}

// Close closes the stream, and the descriptor if it is ours.
func (s *Stream) Close() {
	if s.ours {
		_ = unix.Close(s.fd)
	}
	*s = closedStream()
}
