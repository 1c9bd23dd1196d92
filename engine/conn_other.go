//go:build unix && !linux

package engine

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Outside Linux a new descriptor becomes close-on-exec in a second step. The lock keeps the program from forking before.

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
