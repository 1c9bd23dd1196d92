package session

import (
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// A session's clients know the socket of its engine's proxy for as long as they live. So it is not in the runtime
// directory, which goes at the last logout, but where the history is. Records are elsewhere.

// maxSocket is the longest path of a unix socket, in bytes: 108 with the final zero (unix(7)).
const maxSocket = 107

// Listen makes the session's socket, open to its user only, in the directory of what outlives sessions. Where that is
// impossible (no home directory, a path that is too long, a file system without sockets) it is made below /tmp. The
// descriptor is non-blocking and close-on-exec.
func Listen(id string, uid int, xdgState, home string) (fd int, path string, err error) {
	var inState struct {
		fd   int
		path string
		err  error
	}
	first := errHung
	if proc.InTime(proc.StateTime, func() { inState.fd, inState.path, inState.err = listenInState(id, uid, xdgState, home) }) {
		if first = inState.err; first == nil {
			return inState.fd, inState.path, nil
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

func listenInState(id string, uid int, xdgState, home string) (int, string, error) {
	dir, err := OpenState(uid, xdgState, home)
	if err != nil {
		return -1, "", err
	}
	defer dir.Close()
	return listenIn(dir, id)
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

// RemoveSocket removes the socket of a session that is over, given the path that its record has. It removes nothing but
// what has the name of the session's socket, in a directory of this process's user.
func RemoveSocket(socket, id string) error {
	return atSocket(socket, id, func(d *Directory) error { return d.unlinkSocket(id) })
}

// LeaveLink puts a link to the engine's own socket in the place of the session's: processes that were kept know no other
// address. A sweep removes it when none is left (RemoveDeadSockets).
func LeaveLink(socket, id, engine string) error {
	return atSocket(socket, id, func(d *Directory) error {
		return d.at.LinkTo(engine, file(id, socketSuffix), file(id, nextSocket))
	})
}

// atSocket calls do with the directory of a session's socket, if it is this process's user's.
func atSocket(socket, id string, do func(*Directory) error) error {
	if named, ok := SocketID(socket); !ok || named != id {
		return nil
	}
	if d, err := openOwn(path.Dir(socket), unix.Getuid()); err == nil {
		defer d.Close()
		return do(d)
	}
	return nil // It is another user's, or gone.
}

// unlinkSocket removes what has the name of the session's socket and is one, or a link that was left in its place.
func (d *Directory) unlinkSocket(id string) error {
	var st unix.Stat_t
	name := file(id, socketSuffix)
	if err := d.at.Look(name, &st); err == nil && (st.Mode&unix.S_IFMT == unix.S_IFSOCK || st.Mode&unix.S_IFMT == unix.S_IFLNK) {
		return d.at.Unlink(name)
	}
	return nil
}

// RemoveDeadSockets removes what killed processes have left: sockets without a listener, and the places of hosts. A socket
// whose state is unknown stays. So does a young one: its supervisor may be about to listen. A link that was left for kept
// processes goes when isUsed says that none of the session is left; nil if that is not known.
func (d *Directory) RemoveDeadSockets(isUsed func(id string) bool) error {
	names, err := d.at.Names()
	if err != nil {
		return err
	}
	errs := []error{d.removeDeadPlaces()}
	for _, name := range names {
		id, ok := SocketID(name)
		if !ok || !d.isOld(name) {
			continue
		}
		var st unix.Stat_t
		isLink := d.at.Look(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
		if isLink && isUsed != nil && !isUsed(id) || !isLink && d.refuses(name) {
			errs = append(errs, d.unlinkSocket(id))
		}
	}
	return errors.Join(errs...)
}

// isOld reports whether a file has been there for some time.
func (d *Directory) isOld(name string) bool {
	var st unix.Stat_t
	return d.at.Look(name, &st) == nil && time.Since(proc.Modified(&st)) > time.Minute
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
