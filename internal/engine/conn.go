package engine

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// conn is a connected, non-blocking socket. Only the interfaces of package net are used: its own sockets would bring
// in a resolver and all other protocols, a fifteenth of the program.
type conn struct{ *os.File }

// LocalAddr completes net.Conn and is not used.
func (c conn) LocalAddr() net.Addr { return nil }

// RemoteAddr completes net.Conn and is not used.
func (c conn) RemoteAddr() net.Addr { return nil }

// CloseWrite tells the other side that nothing follows.
func (c conn) CloseWrite() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.Shutdown(int(fd), unix.SHUT_WR) })
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
	return conn{os.NewFile(uintptr(fd), "socket")}, nil
}

// listener accepts connections on a unix socket.
type listener struct{ *os.File }

// NewListener takes over a listening, non-blocking unix socket.
func NewListener(fd int) net.Listener { return listener{os.NewFile(uintptr(fd), "listener")} }

// Addr completes net.Listener and is not used.
func (l listener) Addr() net.Addr { return nil }

// Accept waits for a connection, or for Close.
func (l listener) Accept() (net.Conn, error) {
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
	if err := errors.Join(err, inner); err != nil {
		return nil, fmt.Errorf("accept a connection: %w", err)
	}
	return newConn(fd)
}
