package engine

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// conn is a connected, non-blocking socket. Only the interfaces of package net are used: its own sockets would bring
// in a resolver and all other protocols, a fifteenth of the program.
type conn struct {
	*os.File
	raw syscall.RawConn // of the file
}

// Read reads as proc.ReadNow does.
func (c conn) Read(b []byte) (n int, err error) {
	waitErr := c.raw.Read(func(fd uintptr) bool {
		n, err = proc.ReadNow(fd, b)
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return 0, waitErr
	}
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

// Write writes as proc.WriteNow does.
func (c conn) Write(b []byte) (n int, err error) {
	waitErr := c.raw.Write(func(fd uintptr) bool {
		for n < len(b) && err == nil {
			var m int
			m, err = proc.WriteNow(fd, b[n:])
			n += m
		}
		if errors.Is(err, unix.EAGAIN) {
			err = nil
			return false
		}
		return true
	})
	return n, errors.Join(err, waitErr)
}

// LocalAddr completes net.Conn and is not used.
func (c conn) LocalAddr() net.Addr { return nil }

// RemoteAddr completes net.Conn and is not used.
func (c conn) RemoteAddr() net.Addr { return nil }

// CloseWrite tells the other side that nothing follows.
func (c conn) CloseWrite() error {
	var inner error
	err := c.raw.Control(func(fd uintptr) { inner = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(err, inner)
}

// CloseWrite tells the other side of a connection that nothing follows, and can still read from it. A connection that has
// no such method is closed.
func CloseWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.Join(c.Close(), errors.ErrUnsupported)
}

// newConn takes over a connected socket.
func newConn(fd int) (conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return conn{}, fmt.Errorf("prepare socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return conn{}, fmt.Errorf("prepare socket: %w", err)
	}
	return conn{file, raw}, nil
}

// listener accepts connections on a unix socket.
type listener struct {
	*os.File
	closed atomic.Bool
}

// NewListener takes over a listening, non-blocking unix socket.
func NewListener(fd int) net.Listener { return &listener{File: os.NewFile(uintptr(fd), "listener")} }

// Addr completes net.Listener and is not used.
func (l *listener) Addr() net.Addr { return nil }

// Close makes Accept return too.
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
		fd, _, inner = unix.Accept4(int(s), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
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
