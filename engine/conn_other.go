//go:build unix && !linux

package engine

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Outside Linux a new descriptor becomes close-on-exec in a second step. The lock prevents a fork in between.

func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	return fd, unix.SetNonblock(fd, true)
}

func accept(l int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, _, err := unix.Accept(l)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// socket is a connected, non-blocking unix socket, which Go's poller waits for.
type socket struct {
	*os.File
	syscall.RawConn
}

// openSocket takes over a connected socket.
func openSocket(fd int) (*socket, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("prepare socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("prepare socket: %w", err)
	}
	return &socket{f, raw}, nil
}

// Read calls f whenever the socket may be read, until f returns true.
func (s *socket) Read(f func(fd uintptr) bool) error { return s.RawConn.Read(f) }

// Write calls f whenever the socket may be written, until f returns true.
func (s *socket) Write(f func(fd uintptr) bool) error { return s.RawConn.Write(f) }
