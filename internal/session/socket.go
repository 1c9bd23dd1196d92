package session

import (
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
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

// MayHaveContainers reports whether a session has a socket for clients of its engine, or a journal that is not empty, in the
// directory of its record or in the one below /tmp. While its server sleeps, it has no socket.
func MayHaveContainers(id string, uid int, xdgRuntime string) bool {
	dirs := OpenAll(uid, xdgRuntime)
	defer CloseAll(dirs)
	for _, d := range dirs {
		var st unix.Stat_t
		if d.at.Look(file(id, socketSuffix), &st) == nil || d.at.Look(file(id, journalSuffix), &st) == nil && st.Size > 0 {
			return true
		}
	}
	return false
}

// RemoveSocket removes the socket of a session that is over, given the path that its record has. It removes nothing but
// a session's socket. It does so only in this directory, or in the user's own below /tmp where no session of that id
// lives.
func (d *Directory) RemoveSocket(socket, id string) error {
	if named, ok := SocketID(socket); !ok || named != id {
		return nil
	}
	if d != nil && path.Dir(socket) == d.Name {
		return d.unlinkSocket(id)
	}
	return removeFallback(socket, id)
}

// removeFallback is RemoveSocket for the directory below /tmp.
func removeFallback(socket, id string) error {
	uid := unix.Getuid()
	if socket != FallbackSocket(id, uid) {
		return nil
	}
	dirs, _ := own([]string{fallbackDir(uid)}, uid)
	defer CloseAll(dirs)
	for _, d := range dirs {
		// What cannot be found out counts as held.
		if held, _ := d.Held(id); !held {
			return d.unlinkSocket(id)
		}
	}
	return nil
}

// unlinkSocket removes what has the name of the session's socket and is one.
func (d *Directory) unlinkSocket(id string) error {
	var st unix.Stat_t
	name := file(id, socketSuffix)
	if err := d.at.Look(name, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return d.at.Unlink(name)
	}
	return nil
}

// RemoveDeadSockets removes the sockets that have no listener any more and whose sessions have nothing else in the
// directory. They are left by supervisors that were killed when no record could be kept. A socket whose state is unknown
// stays. So does a young one: its supervisor may be about to listen. The places of killed hosts are removed as well.
func (d *Directory) RemoveDeadSockets() error {
	names, err := d.at.Names()
	if err != nil {
		return err
	}
	errs := []error{d.removeDeadPlaces()}
	for _, name := range names {
		id, ok := SocketID(name)
		if !ok {
			continue
		}
		if _, err := d.Held(id); errors.Is(err, unix.ENOENT) && d.isOld(name) && d.refuses(name) {
			errs = append(errs, d.unlinkSocket(id))
		}
	}
	return errors.Join(errs...)
}

// isOld reports whether a file has been there for some time.
func (d *Directory) isOld(name string) bool {
	var st unix.Stat_t
	return d.at.Look(name, &st) == nil && time.Since(kernel.Modified(&st)) > time.Minute
}

// refuses reports whether a socket has no listener. The kernel knows that in whatever namespace the listener is.
func (d *Directory) refuses(name string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	unix.CloseOnExec(fd)
	if unix.SetNonblock(fd, true) != nil {
		return false
	}
	return errors.Is(d.at.Connect(fd, name), unix.ECONNREFUSED)
}
