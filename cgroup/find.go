package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Found is a leaf that Find found.
type Found struct {
	Dir string
	// ID is what follows Prefix in its name.
	ID string
	// Made is when it was created, and UID the user that created it.
	Made time.Time
	UID  int
}

// ErrNotSearched says that Find has not looked everywhere.
var ErrNotSearched = errors.New("not all cgroups were searched for leaves")

// Find searches the hierarchy that this process can see for the leaves of sessions. is tells their ids. It does not look below a
// leaf, nor below what was given to a user that is neither root nor this one, which is the word of that user. The error is ErrNone
// without cgroup v2. Any other one comes with what was found.
func Find(is func(id string) bool) (leaves []Found, err error) {
	mounts, err := proc.Read("/proc/self/mountinfo", nil)
	if err != nil {
		return nil, notSearched(err)
	}
	roots := mountPoints(mounts)
	if len(roots) == 0 {
		return nil, ErrNone
	}
	top, err := openCgroup(roots[0])
	if err != nil {
		return nil, fmt.Errorf("look for cgroups below %s: %w", roots[0], notSearched(err))
	}
	unix.Close(top)
	s := search{is: is, uid: os.Getuid()}
	s.walk(roots[0])
	return s.leaves, s.err
}

// mountPoints lists where cgroup v2 is mounted.
func mountPoints(mountinfo []byte) []string {
	var out []string
	for line := range strings.Lines(string(mountinfo)) {
		if _, point, ok := parseMount(line); ok {
			out = append(out, point)
		}
	}
	return out
}

// search is one search through a hierarchy, for a user.
type search struct {
	is     func(id string) bool
	uid    int
	leaves []Found
	err    error
}

// walk looks below a directory. A directory that cannot be read hides no others.
func (s *search) walk(top string) {
	_ = filepath.WalkDir(top, func(dir string, entry fs.DirEntry, err error) error {
		if entry == nil || err == nil && (!entry.IsDir() || dir == top) {
			s.cut(err)
			return nil
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(dir, &st)
		}
		if err == nil && strings.Count(dir[len(top):], "/") > maxDepth {
			err = errTooDeep
		}
		if err != nil {
			s.cut(err)
			return fs.SkipDir
		}
		owner := int(st.Uid)
		id, ours := strings.CutPrefix(entry.Name(), Prefix)
		switch {
		case ours && s.is(id):
			s.leaves = append(s.leaves, Found{Dir: dir, ID: id, Made: time.Unix(st.Mtim.Unix()), UID: owner})
			return fs.SkipDir
		case owner != 0 && owner != s.uid:
			return fs.SkipDir
		}
		return nil
	})
}

// cut notes that something was not looked at, and why.
func (s *search) cut(why error) {
	if err := notSearched(why); errors.Is(err, ErrNotSearched) {
		s.err = err
	}
}

// notSearched makes an error ErrNotSearched unless it hides no leaf. A cgroup that is gone has none, and one that is closed
// to this user has none of this user's.
func notSearched(why error) error {
	if why == nil || IsGone(why) || errors.Is(why, unix.EACCES) {
		return why
	}
	return fmt.Errorf("%w: %w", ErrNotSearched, why)
}
