package session

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Directory is an open directory of records. Its user may put anything into the place of its name at any time, so all
// that is in it is reached through the descriptor.
type Directory struct {
	// Name is the path under which it was opened.
	Name string
	at   *proc.Dir
}

func newDirectory(at *proc.Dir) *Directory { return &Directory{at.Name, at} }

// Close closes the directory.
func (d *Directory) Close() { d.at.Close() }

// Open opens the directory of the records of user uid and makes it when needed. It is mcp-tether in $XDG_RUNTIME_DIR,
// else in /run/user/UID, else in /run for root, else /tmp/mcp-tether-UID. A runtime directory that is missing or
// belongs to another user (sudo keeps the variable) is passed over, as is a /run in which no directory can be made. The
// directory itself must be a real one of that user, closed to all others. Otherwise the error says what to change, and no
// record is kept.
func Open(uid int, xdgRuntime string) (*Directory, error) {
	return openPrivate(dirFor(uid, xdgRuntime, func(dir string) bool { return belongsTo(dir, uid) && !unmakeable(dir) }), uid)
}

// openPrivate makes a directory when needed, and verifies that it is the user's alone.
func openPrivate(name string, uid int) (*Directory, error) {
	if err := unix.Mkdir(name, 0o700); err != nil && err != unix.EEXIST {
		return nil, fmt.Errorf("create directory %s: %w", name, err)
	}
	return openOwn(name, uid)
}

// openOwn opens a directory that is the user's alone. What is opened is what was looked at: nobody else may put another in its
// place, in the user's own directory or in a sticky one.
func openOwn(name string, uid int) (*Directory, error) {
	st, err := proc.Look(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open directory %s: %w", name, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR || isMount(name, &st):
		return nil, fmt.Errorf("%s is not a directory, or is a mount point: remove it", name)
	case !proc.IsDirOf(uid, &st):
		return nil, fmt.Errorf("directory %s belongs to uid %d: remove it, or name another (XDG_RUNTIME_DIR, XDG_CACHE_HOME, XDG_STATE_HOME)", name, st.Uid)
	case st.Mode&0o077 != 0:
		return nil, fmt.Errorf("directory %s is open to others: chmod 700 it", name)
	}
	dir, err := proc.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return newDirectory(dir), nil
}

// isMount reports whether a directory in /tmp is on a file system of its own. Any user may mount one there for another one to
// find (fusermount(1)). Its owner and mode are what the mounter says, and so are the records on it.
func isMount(name string, st *unix.Statx_t) bool {
	if path.Dir(name) != temporaryDir {
		return false
	}
	tmp, err := proc.Look(temporaryDir + "/.")
	return err != nil || tmp.Dev_major != st.Dev_major || tmp.Dev_minor != st.Dev_minor
}

// dirFor chooses the first of Open's places that is the user's.
func dirFor(uid int, xdgRuntime string, ours func(dir string) bool) string {
	switch {
	case strings.HasPrefix(xdgRuntime, "/") && ours(xdgRuntime):
		return dirIn(xdgRuntime)
	case ours(userRuntime(uid)):
		return dirIn(userRuntime(uid))
	case uid == 0 && ours(systemRuntime):
		return dirIn(systemRuntime)
	}
	return fallbackDir(uid)
}

// unmakeable reports whether a runtime directory is root's own that cannot be written and has no session directory. The image
// of a container often has an empty /run. A directory that is there has records, even if no other can be added.
func unmakeable(runtime string) bool {
	return runtime == systemRuntime && unix.Access(dirIn(runtime), unix.F_OK) == unix.ENOENT && unix.Access(runtime, unix.W_OK) == unix.EROFS
}

// belongsTo reports whether name is a directory of the user.
func belongsTo(name string, uid int) bool {
	var st unix.Stat_t
	return unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid
}
