package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
)

// Found is a leaf that Find found.
type Found struct {
	Dir string
	// Made is when it was created, and UID the user that created it.
	Made time.Time
	UID  int
}

// Bounds of the search through a hierarchy: in cgroups of one user, and in levels.
const (
	maxCgroups = 100_000
	maxLevels  = 64
)

// ErrNotSearched says that Find has not looked everywhere.
var ErrNotSearched = errors.New("not all cgroups were searched for leaves")

// errTooMany is one reason for that; errTooDeep is another.
var errTooMany = errors.New("a user has too many")

// Find searches the hierarchy that this process can see for cgroups whose name begins with prefix. It does not look
// below those. The error is ErrNone without cgroup v2. Any other one comes with what was found.
func Find(prefix string) ([]Found, error) {
	mounts, err := kernel.Read("/proc/self/mountinfo", nil)
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
	var st unix.Stat_t
	_ = unix.Fstat(top, &st)
	s := search{prefix: prefix, top: int(st.Uid), most: maxCgroups, seen: map[int]int{}}
	s.below(top, roots[0], maxLevels, s.top)
	return s.out, s.err
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

// search is one search through a hierarchy.
type search struct {
	prefix string
	top    int         // owner of the hierarchy
	most   int         // how many cgroups of one user are looked at
	seen   map[int]int // how many have been, by user
	out    []Found
	err    error
}

// cut notes that something of a user's was not looked at, and why. Another user than root has no leaf there.
func (s *search) cut(whose int, why error) {
	err, uid := notSearched(why), os.Getuid()
	if errors.Is(err, ErrNotSearched) && (uid == 0 || whose == uid || whose == s.top) {
		s.err = err
	}
}

// notSearched makes an error ErrNotSearched unless it hides no leaf. A cgroup that is gone has none, and one that is closed
// to this user has none of this user's.
func notSearched(why error) error {
	if IsGone(why) || errors.Is(why, unix.EACCES) {
		return why
	}
	return fmt.Errorf("%w: %w", ErrNotSearched, why)
}

// below looks below an open directory, which it closes. A user to whom a part of the hierarchy was given owns all that is
// there. So none can use up what others are granted.
func (s *search) below(fd int, dir string, levels, owner int) {
	defer unix.Close(fd)
	names, err := children(fd)
	if err != nil {
		s.cut(owner, err)
		return
	}
	if levels == 0 {
		if len(names) > 0 {
			s.cut(owner, errTooDeep)
		}
		return
	}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			s.cut(owner, err)
			continue
		}
		whose := owner
		if owner == s.top {
			whose = int(st.Uid)
		}
		if s.seen[whose]++; s.seen[whose] > s.most {
			s.cut(whose, errTooMany)
			continue
		}
		sub := dir + "/" + name
		if strings.HasPrefix(name, s.prefix) {
			s.out = append(s.out, Found{sub, time.Unix(st.Mtim.Unix()), int(st.Uid)})
			continue
		}
		next, err := openDir(fd, name)
		if err != nil {
			s.cut(whose, err)
			continue
		}
		s.below(next, sub, levels-1, whose)
	}
}
