//go:build unix

package session

import "golang.org/x/sys/unix"

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
