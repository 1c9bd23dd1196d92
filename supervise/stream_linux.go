package supervise

import (
	"errors"

	"golang.org/x/sys/unix"

	"mcp-tether/proc"
)

// stream is one end of a stream as the relay uses it: never blocking, and without O_NONBLOCK on a description that others
// share.
type stream struct {
	fd int // -1 when closed
	// socket takes flags with each call; most bounds a write to what a pipe takes without blocking once poll(2) has said
	// that there is room (PIPE_BUF, pipe(7)), 0 where nothing blocks anyway.
	socket bool
	most   int
	// pipe: both ways to one are known to the kernel, see shortcut.
	pipe bool
}

// closedStream is no stream.
func closedStream() stream { return stream{fd: -1} }

// inheritedStream is one of the gateway's. To read one after poll has said that it can be read does not block, because
// nobody else reads it; to write needs a description of our own.
func inheritedStream(fd int, writes bool) stream {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return closedStream()
	}
	kind := st.Mode & unix.S_IFMT
	s := stream{fd: fd, socket: kind == unix.S_IFSOCK, pipe: kind == unix.S_IFIFO}
	if !writes || !s.pipe {
		return s
	}
	if again, err := proc.Reopen(fd, unix.O_WRONLY); err == nil {
		s.fd = again
	} else {
		s.most = 4096
	}
	return s
}

// pipe makes a pipe of which our end does not block; theirs does, as a server expects.
func pipe(oursReads bool) (ours stream, theirs int, err error) {
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
	return stream{fd: mine, pipe: true}, their, nil
}

// read returns 0 and nil when there is nothing now; end is true when there will be nothing any more.
func (s stream) read(b []byte) (n int, end bool) {
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

// write returns how much was taken; end is true when nothing is taken any more.
func (s stream) write(b []byte) (n int, end bool) {
	if s.most > 0 && len(b) > s.most {
		b = b[:s.most]
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

// close lets go of the stream. The descriptors 0 and 1 stay taken, by /dev/null, or the next file to be opened would
// become somebody's standard stream.
func (s *stream) close() {
	if s.fd > 1 {
		_ = unix.Close(s.fd)
	}
	s.fd = -1
}
