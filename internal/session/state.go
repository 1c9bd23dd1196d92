package session

import "path/filepath"

// OpenState opens the directory of what outlives sessions, and makes it when needed: mcp-tether in $XDG_STATE_HOME, else in
// /var/lib for root, whose services often have no home, else in .local/state of the home directory. The rest is as for
// OpenCache.
func OpenState(uid int, xdgState, home string) (*Directory, error) {
	if uid == 0 && !filepath.IsAbs(xdgState) {
		xdgState = systemState
	}
	return openBelow(uid, xdgState, home, ".local", "state")
}

// FindState is OpenState for a reader, and makes nothing. The error is ENOENT where there is none.
func FindState(uid int, xdgState, home string) (*Directory, error) {
	parent := xdgState
	switch {
	case filepath.IsAbs(xdgState):
	case uid == 0:
		parent = systemState
	case !filepath.IsAbs(home):
		return nil, errNoHome
	default:
		parent = filepath.Join(home, ".local", "state")
	}
	return openOwn(dirIn(parent), uid)
}
