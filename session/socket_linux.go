package session

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxSocket is the longest path of a unix socket, in bytes: 108 with the final zero (unix(7)).
const maxSocket = 107

// Listen makes the session's socket, open to its user only, in dir, or where that is impossible (no directory, a path
// that is too long, a read-only file system) in the one below /tmp. The descriptor is non-blocking and close-on-exec.
func Listen(dir, id string, uid int) (fd int, path string, err error) {
	var first error
	if dir != "" {
		if fd, path, first = listenIn(dir, id); first == nil {
			return fd, path, nil
		}
	}
	short, err := privateDir(fallbackDir(uid), uid)
	if err == nil {
		fd, path, err = listenIn(short, id)
	}
	if err != nil {
		return -1, "", errors.Join(first, err)
	}
	return fd, path, nil
}

// FallbackSocket is where Listen makes the socket if it cannot make it in the session's directory.
func FallbackSocket(id string, uid int) string { return file(fallbackDir(uid), id, socketSuffix) }

func listenIn(dir, id string) (int, string, error) {
	path := file(dir, id, socketSuffix)
	if len(path) > maxSocket {
		return -1, "", fmt.Errorf("socket path %s is longer than %d bytes", path, maxSocket)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, "", fmt.Errorf("make socket: %w", err)
	}
	// The directory is closed to other users already; the mode says so to those who list it.
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		if err = errors.Join(unix.Chmod(path, 0o600), unix.Listen(fd, unix.SOMAXCONN)); err == nil {
			return fd, path, nil
		}
		_ = unix.Unlink(path)
	}
	unix.Close(fd)
	return -1, "", fmt.Errorf("listen on %s: %w", path, err)
}
