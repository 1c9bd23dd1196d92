package session

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Listen makes the socket, and replaces one that was left. Only the holder of the lock may call it.
func (p Place) Listen() (fd int, err error) {
	if err := p.Withdraw(); err != nil {
		return -1, err
	}
	if fd, err = packetSocket(); err != nil {
		return -1, err
	}
	if err = unix.Fchmod(fd, 0o600); err == nil {
		err = p.dir.at.Bind(fd, file(p.name, socketSuffix))
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("listen in %s: %w", p.dir.Name, err)
	}
	return fd, nil
}

// ErrNoHost says that no host listens in a place.
var ErrNoHost = errors.New("no host listens")

// Connect connects to the host.
func (p Place) Connect() (fd int, err error) {
	if fd, err = packetSocket(); err != nil {
		return -1, err
	}
	switch err = p.dir.at.Connect(fd, file(p.name, socketSuffix)); {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		err = ErrNoHost
	}
	unix.Close(fd)
	return -1, fmt.Errorf("connect to the host in %s: %w", p.dir.Name, err)
}

// packetSocket makes a socket that keeps messages apart and does not block.
func packetSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("make socket: %w", err)
	}
	return fd, nil
}
