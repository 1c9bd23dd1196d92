//go:build unix

package container

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a connected unix socket. Package net's would bring a resolver and every other protocol with it, which is a
// fifteenth of the program: only its interfaces are used.
type conn struct{ *os.File }

// LocalAddr and RemoteAddr complete net.Conn; nobody asks for them.
func (c conn) LocalAddr() net.Addr  { return nil }
func (c conn) RemoteAddr() net.Addr { return nil }

// CloseWrite tells the other side that nothing follows.
func (c conn) CloseWrite() error {
	return c.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

func (c conn) control(do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = do(int(fd)) })
	return errors.Join(err, inner)
}

// newConn takes over a connected socket.
func newConn(fd int) (net.Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("prepare socket: %w", err)
	}
	return conn{os.NewFile(uintptr(fd), "socket")}, nil
}

// connectPause is how often to try again while the queue of a socket's listener is full, which connect(2) on a
// non-blocking unix socket reports with EAGAIN.
const connectPause = 5 * time.Millisecond

// dialSocket connects to a unix socket within timeout (0: no limit).
func dialSocket(path string, timeout time.Duration) (net.Conn, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	limit := time.Now().Add(timeout)
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) || timeout > 0 && time.Now().After(limit) {
			break
		}
		time.Sleep(connectPause)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return newConn(fd)
}

// listener accepts connections on a unix socket.
type listener struct {
	*os.File
	closed atomic.Bool
}

// NewListener takes over a listening, non-blocking unix socket.
func NewListener(fd int) net.Listener { return &listener{File: os.NewFile(uintptr(fd), "listener")} }

// Addr completes net.Listener; nobody asks for it.
func (l *listener) Addr() net.Addr { return nil }

// Close ends Accept as well.
func (l *listener) Close() error {
	l.closed.Store(true)
	return l.File.Close()
}

// Accept waits for a connection. After Close it fails with net.ErrClosed.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	var (
		fd    int
		inner error
	)
	err = raw.Read(func(s uintptr) bool {
		fd, inner = accept(int(s))
		return !errors.Is(inner, unix.EAGAIN)
	})
	if l.closed.Load() {
		if err == nil && inner == nil {
			unix.Close(fd)
		}
		return nil, net.ErrClosed
	}
	if err := errors.Join(err, inner); err != nil {
		return nil, fmt.Errorf("accept a connection: %w", err)
	}
	return newConn(fd)
}
