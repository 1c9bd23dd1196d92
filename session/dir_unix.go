//go:build unix

package session

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir finds the directory of the records of user uid and makes it when needed: mcp-tether in $XDG_RUNTIME_DIR, else in
// /run/user/UID, else in /run for root, else /tmp/mcp-tether-UID. A runtime directory that is missing or belongs to
// another user (sudo keeps the variable) is passed over. The directory itself must be a real one of that user, closed to
// all others; otherwise the error says what to change, and no record is kept.
func Dir(uid int, xdgRuntime string) (string, error) {
	return privateDir(dirFor(uid, xdgRuntime, func(dir string) bool { return belongsTo(dir, uid) }), uid)
}

// privateDir makes a directory when needed, and verifies that it is the user's alone.
func privateDir(dir string, uid int) (string, error) {
	if err := unix.Mkdir(dir, 0o700); err != nil && err != unix.EEXIST {
		return "", fmt.Errorf("create session directory %s: %w", dir, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", fmt.Errorf("look at session directory %s: %w", dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return "", fmt.Errorf("session directory %s is not a directory: remove it", dir)
	case int(st.Uid) != uid:
		return "", fmt.Errorf("session directory %s belongs to uid %d: remove it or set XDG_RUNTIME_DIR", dir, st.Uid)
	case st.Mode&0o077 != 0:
		return "", fmt.Errorf("session directory %s is open to others: chmod 700 it", dir)
	}
	return dir, nil
}

// dirFor chooses among the places of Dir by which of them are the user's.
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

// belongsTo reports whether name is a directory of the user.
func belongsTo(name string, uid int) bool {
	var st unix.Stat_t
	return unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid
}
