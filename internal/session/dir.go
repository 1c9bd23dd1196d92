package session

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
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

// openBelow opens the user's directory in the parent that a variable names, else below the home directory.
func openBelow(uid int, parent, home string, below ...string) (*Directory, error) {
	if !filepath.IsAbs(parent) {
		if !filepath.IsAbs(home) {
			return nil, errNoHome
		}
		if parent = home; !belongsTo(home, uid) {
			return nil, fmt.Errorf("home directory %s is not there, or not of uid %d", home, uid)
		}
		for _, name := range below {
			parent = filepath.Join(parent, name)
			if err := unix.Mkdir(parent, 0o700); err != nil && err != unix.EEXIST {
				return nil, fmt.Errorf("create directory %s: %w", parent, err)
			}
		}
	}
	// What such a variable names is made when it is missing (XDG Base Directory Specification), but not among what is another's.
	if !belongsTo(parent, uid) && belongsTo(filepath.Dir(parent), uid) {
		_ = unix.Mkdir(parent, 0o700)
	}
	if !belongsTo(parent, uid) {
		return nil, fmt.Errorf("directory %s is not there, or not of uid %d", parent, uid)
	}
	return openPrivate(dirIn(parent), uid)
}

// errNoHome says that nothing tells where a user's files are.
var errNoHome = errors.New("HOME is not an absolute path, nor is XDG_CACHE_HOME or XDG_STATE_HOME")

// OpenState opens the directory of what outlives sessions, and makes it when needed: mcp-tether in $XDG_STATE_HOME, else in
// .local/state of the home directory. Root's services often have no home: without one of root's own it is in /var/lib. The
// rest is as for OpenCache.
func OpenState(uid int, xdgState, home string) (*Directory, error) {
	return openBelow(uid, stateParent(uid, xdgState, home), home, ".local", "state")
}

// FindState is OpenState for a reader, and makes nothing. The error is ENOENT where there is none.
func FindState(uid int, xdgState, home string) (*Directory, error) {
	parent := stateParent(uid, xdgState, home)
	if parent == "" {
		if !filepath.IsAbs(home) {
			return nil, errNoHome
		}
		parent = filepath.Join(home, ".local", "state")
	}
	return openOwn(dirIn(parent), uid)
}

// stateParent is the parent directory, or "" where it is below the home directory.
func stateParent(uid int, xdgState, home string) string {
	switch {
	case filepath.IsAbs(xdgState):
		return xdgState
	case uid == 0 && !belongsTo(home, uid):
		return systemState
	}
	return ""
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

// Where sessions keep their files. The names are spelled here and nowhere else.

// The parents of our directories.
const (
	systemRuntime = "/run"
	usersRuntime  = "/run/user"
	temporaryDir  = "/tmp"
	systemState   = "/var/lib"
)

// dirName is the session directory's name in a runtime directory. In /tmp, which all users share, "-UID" follows.
const dirName = "mcp-tether"

// dirIn is the session directory in a runtime directory.
func dirIn(runtime string) string { return runtime + "/" + dirName }

// userRuntime is the runtime directory that a login manager makes for a user.
func userRuntime(uid int) string { return usersRuntime + "/" + strconv.Itoa(uid) }

// fallbackDir is the session directory where there is no runtime directory.
func fallbackDir(uid int) string { return temporaryDir + "/" + fallbackPrefix + strconv.Itoa(uid) }

const fallbackPrefix = dirName + "-"

// suffix distinguishes the files of one session; they begin with its id.
type suffix string

const (
	recordSuffix suffix = ".json"
	nextSuffix   suffix = ".json.tmp" // what is about to be the record
	lockSuffix   suffix = ".lock"     // a lock that is no session's
	socketSuffix suffix = ".sock"
	nextSocket   suffix = ".sock.tmp" // the link that is about to be in the socket's place
)

// file is the name of one of a session's files in its directory.
func file(id string, s suffix) string { return id + string(s) }

// SocketID gives the session whose proxy listens on the socket at this path; ok is false if it cannot be a session's.
func SocketID(socket string) (id string, ok bool) {
	id, ok = strings.CutSuffix(path.Base(socket), string(socketSuffix))
	return id, ok && ValidID(id)
}
