//go:build unix

package session

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const socketSuffix = ".sock"

// RemoveSocket removes the socket of a session that is over. Nothing but a session's socket is ever removed.
func RemoveSocket(path, id string) error {
	var st unix.Stat_t
	if n := len(id) + len(socketSuffix) + 1; !ValidID(id) || len(path) < n || path[len(path)-n:] != "/"+id+socketSuffix {
		return nil
	}
	if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return unlink(path)
	}
	return nil
}

// RemoveDeadSockets removes the sockets in dir on which nobody listens any more and whose sessions have nothing else there:
// those of supervisors that were killed when no record could be kept. What cannot be told stays, and so does what is so
// young that its owner may be about to listen.
func RemoveDeadSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), socketSuffix)
		if !ok || !ValidID(id) {
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

// refuses reports whether a socket has no listener: the kernel says so of one whose process is gone, in whatever namespace.
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
