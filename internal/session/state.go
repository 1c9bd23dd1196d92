package session

import "path/filepath"

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
