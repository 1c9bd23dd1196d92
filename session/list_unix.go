//go:build unix

package session

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoLock says that there is no lock file.
var ErrNoLock = errors.New("no lock file")

// Held reports whether a living process holds the lease of a session. The error says that it could not be found out;
// then the session counts as alive.
func Held(dir, id string) (bool, error) {
	name := file(dir, id, lockSuffix)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == unix.ENOENT {
		return false, fmt.Errorf("look at %s: %w", name, ErrNoLock)
	}
	if err != nil {
		return true, fmt.Errorf("open lock %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return true, fmt.Errorf("lock %s is not a regular file", name)
	}
	// Shared: two reapers do not disturb each other.
	err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("try lock %s: %w", name, err)
	}
	if unlinked(fd) {
		// The supervisor has removed the lock and let go of it since it was opened: the session is over, not dead.
		return false, fmt.Errorf("look at %s: %w", name, ErrNoLock)
	}
	return false, nil
}

// unlinked reports whether an open file has lost its last name.
func unlinked(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Nlink == 0
}

// IDs lists the sessions that have a record or a lock in dir.
func IDs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list sessions in %s: %w", dir, err)
	}
	seen := map[string]bool{}
	var out []string
	for _, e := range entries {
		id, _, ok := strings.Cut(e.Name(), ".")
		if ok && ValidID(id) && !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out, nil
}

// Dirs lists the session directories that exist: those of the user, and for root those of every user.
func Dirs(uid int, xdgRuntime string) []Place {
	candidates := []string{fallbackDir(uid), dirIn(userRuntime(uid))}
	if strings.HasPrefix(xdgRuntime, "/") {
		candidates = append(candidates, dirIn(xdgRuntime))
	}
	if uid == 0 {
		candidates = append(candidates, dirIn(systemRuntime))
		candidates = append(candidates, everyUsersDirs()...)
	}
	return places(candidates, uid)
}

// everyUsersDirs lists where the users of this machine may have their session directories.
func everyUsersDirs() []string {
	var out []string
	users, _ := os.ReadDir(usersRuntime)
	for _, e := range users {
		out = append(out, dirIn(usersRuntime+"/"+e.Name()))
	}
	fallbacks, _ := os.ReadDir(temporary)
	for _, e := range fallbacks {
		if strings.HasPrefix(e.Name(), fallbackPrefix) {
			out = append(out, temporary+"/"+e.Name())
		}
	}
	return out
}

// Place is a directory of records and its owner.
type Place struct {
	Dir   string
	Owner int
}

// places keeps the real directories that only their owner can write to, each once; another user's directory counts only
// for root.
func places(candidates []string, uid int) []Place {
	var out []Place
	seen := map[uint64]bool{}
	for _, dir := range candidates {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o022 != 0 || seen[st.Ino] {
			continue
		}
		if owner := int(st.Uid); owner == uid || uid == 0 {
			seen[st.Ino] = true
			out = append(out, Place{dir, owner})
		}
	}
	return out
}

// Remove removes the record and lock of a dead session. The error is ErrHeld when it lives after all.
func Remove(dir, id string) error {
	l, err := Take(dir, id)
	if err != nil {
		return err
	}
	return l.Remove()
}
