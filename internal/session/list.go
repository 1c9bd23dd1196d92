package session

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Held reports whether a living process holds the lease of a session. With os.ErrNotExist there is no record. Any other error
// says that it could not be found out; then the session counts as alive.
func (d *Directory) Held(id string) (bool, error) { return d.held(file(id, recordSuffix)) }

func (d *Directory) held(name string) (bool, error) {
	fd, err := d.at.Open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return !errors.Is(err, unix.ENOENT), fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return true, fmt.Errorf("%s is not a regular file", name)
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
		// The supervisor has removed the record and let go of it since it was opened: the session is over, not dead.
		return false, fmt.Errorf("open %s: %w", name, unix.ENOENT)
	}
	return false, nil
}

// unlinked reports whether an open file has lost its last name.
func unlinked(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Nlink == 0
}

// IDs lists the sessions that have a record in the directory.
func (d *Directory) IDs() ([]string, error) {
	names, err := d.at.Names()
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var out []string
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, string(recordSuffix)); ok && ValidID(id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// OpenAll opens those session directories of a user that exist, and that others cannot write to. No user opens those of
// another one, not even root: a user that may write there may have put anything in the way.
func OpenAll(uid int, xdgRuntime string) []*Directory {
	dirs, _ := OpenAllBut(uid, xdgRuntime)
	return dirs
}

// OpenAllBut is OpenAll. It also says which directories of the user it has left out: they may have records.
func OpenAllBut(uid int, xdgRuntime string) (dirs []*Directory, left []error) {
	candidates := []string{fallbackDir(uid), dirIn(userRuntime(uid))}
	if strings.HasPrefix(xdgRuntime, "/") {
		candidates = append(candidates, dirIn(xdgRuntime))
	}
	if uid == 0 {
		candidates = append(candidates, dirIn(systemRuntime))
	}
	return own(candidates, uid)
}

// Users lists the users that may have session directories on this machine: the name of a runtime directory, which only root
// makes, or a directory below /tmp that belongs to the user of its name. None is opened.
func Users() []int {
	var out []int
	users, _ := os.ReadDir(usersRuntime)
	for _, e := range users {
		out = appendUID(out, e.Name())
	}
	temporary, _ := os.ReadDir(temporaryDir)
	for _, e := range temporary {
		number, ok := strings.CutPrefix(e.Name(), fallbackPrefix)
		if uid := appendUID(nil, number); ok && len(uid) == 1 && hasDir(uid[0], fallbackDir(uid[0])) {
			out = append(out, uid[0])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// appendUID adds the user whose number is the name of a directory. The last two numbers mean no user (chown(2)).
func appendUID(to []int, number string) []int {
	uid, err := strconv.ParseUint(number, 10, 32)
	if err != nil || uid >= math.MaxUint32-1 || strconv.FormatUint(uid, 10) != number {
		return to
	}
	return append(to, int(uid))
}

// CloseAll closes directories.
func CloseAll(dirs []*Directory) {
	for _, d := range dirs {
		d.Close()
	}
}

// own opens the user's real directories that are closed to others, each once. left are the errors of the user's others.
func own(candidates []string, uid int) (out []*Directory, left []error) {
	type place struct{ dev, ino uint64 }
	seen := map[place]bool{}
	for _, name := range candidates {
		dir, err := openOwn(name, uid)
		if err != nil {
			// Another user may put anything in the place of one below /tmp: that is no directory of records.
			if proc.Starved(err) || hasDir(uid, name) {
				left = append(left, err)
			}
			continue
		}
		var st unix.Stat_t
		_ = dir.at.Stat(&st)
		if is := (place{st.Dev, st.Ino}); seen[is] {
			dir.Close()
		} else {
			seen[is] = true
			out = append(out, dir)
		}
	}
	return out, left
}

// hasDir reports whether a path names a directory of the user, and not what another one has mounted.
func hasDir(uid int, name string) bool {
	st, err := proc.Look(name)
	return err == nil && proc.IsDirOf(uid, &st) && !isMount(name, &st)
}

// Remove removes what a dead session has on disk, if it has a record. The error is ErrHeld when it lives after all.
func (d *Directory) Remove(id string) error {
	l, err := d.take(id, recordSuffix, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.Remove()
}
