//go:build unix

package session

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HasSocket reports whether a session has a socket, in the directory of its record or in the one below /tmp.
func HasSocket(id string, uid int, xdgRuntime string) bool {
	var st unix.Stat_t
	if dir, err := Dir(uid, xdgRuntime); err == nil && unix.Lstat(file(dir, id, socketSuffix), &st) == nil {
		return true
	}
	return unix.Lstat(file(fallbackDir(uid), id, socketSuffix), &st) == nil
}

// RemoveSocket removes the socket of a session that is over. Nothing but a session's socket is ever removed.
func RemoveSocket(path, id string) error {
	var st unix.Stat_t
	if named, ok := SocketID(path); !ok || named != id || !strings.HasPrefix(path, "/") {
		return nil
	}
	if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return unlink(path)
	}
	return nil
}

// RemoveDeadSockets removes the sockets in dir that have no listener any more and whose sessions have nothing else there.
// They are left by supervisors that were killed when no record could be kept. A socket whose state is unknown stays. So
// does a young one: its supervisor may be about to listen.
func RemoveDeadSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		id, ok := SocketID(e.Name())
		if !ok {
			continue
		}
		if _, err := Held(dir, id); errors.Is(err, ErrNoLock) && settled(e) && refuses(dir+"/"+e.Name()) {
			errs = append(errs, RemoveSocket(dir+"/"+e.Name(), id))
		}
	}
	return errors.Join(errs...)
}

// settled reports whether a file has been there for some time.
func settled(e os.DirEntry) bool {
	st, err := e.Info()
	return err == nil && time.Since(st.ModTime()) > time.Minute
}

// refuses reports whether a socket has no listener. The kernel knows that in whatever namespace the listener is.
func refuses(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	unix.CloseOnExec(fd)
	if unix.SetNonblock(fd, true) != nil {
		return false
	}
	return errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.ECONNREFUSED)
}
