package session

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxSocket is the longest path of a unix socket, in bytes: 108 with the final zero (unix(7)).
const maxSocket = 107

// Listen makes the session's socket, open to its user only, in dir. Where that is impossible (no directory, a path that
// is too long, a read-only file system) it is made in the one below /tmp. The descriptor is non-blocking and
// close-on-exec.
func Listen(dir *Directory, id string, uid int) (fd int, path string, err error) {
	var first error
	if dir != nil {
		if fd, path, first = listenIn(dir, id); first == nil {
			return fd, path, nil
		}
	}
	short, err := openPrivate(fallbackDir(uid), uid)
	if err == nil {
		fd, path, err = listenIn(short, id)
		short.Close()
	}
	if err != nil {
		return -1, "", errors.Join(first, err)
	}
	return fd, path, nil
}

// listenIn binds by the path that clients get: bind(2) makes a new file or fails, and follows no link there.
func listenIn(dir *Directory, id string) (int, string, error) {
	path := dir.Name + "/" + file(id, socketSuffix)
	if len(path) > maxSocket {
		return -1, "", fmt.Errorf("socket path %s is longer than %d bytes", path, maxSocket)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, "", fmt.Errorf("make socket: %w", err)
	}
	// The directory is closed to other users already; the mode says so in a listing. The file takes the mode of the socket
	// (unix_bind in the kernel).
	if err = unix.Fchmod(fd, 0o600); err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		if err = unix.Listen(fd, unix.SOMAXCONN); err == nil {
			return fd, path, nil
		}
		_ = dir.unlinkSocket(id)
	}
	unix.Close(fd)
	return -1, "", fmt.Errorf("listen on %s: %w", path, err)
}
