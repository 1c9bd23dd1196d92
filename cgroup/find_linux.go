package cgroup

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/kernel"
)

// Found is a leaf that Find found.
type Found struct {
	Dir string
	// Made is when it was created, and UID the user that created it.
	Made time.Time
	UID  int
}

// Bounds of the search through a hierarchy, in cgroups and levels.
const (
	maxFound  = 100_000
	maxLevels = 64
)

// Find searches the hierarchy that this process can see for cgroups whose name begins with prefix. It does not look
// below those. The error is ErrNone without cgroup v2.
func Find(prefix string) ([]Found, error) {
	mounts, err := kernel.Read("/proc/self/mountinfo", nil)
	if err != nil {
		return nil, err
	}
	roots := mountPoints(mounts)
	if len(roots) == 0 {
		return nil, ErrNone
	}
	var out []Found
	left := maxFound
	top, err := openCgroup(roots[0])
	if err != nil {
		return nil, fmt.Errorf("look for cgroups below %s: %w", roots[0], err)
	}
	search(top, roots[0], prefix, maxLevels, &left, &out)
	return out, nil
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

// search looks below an open directory, which it closes; dir is its path.
func search(fd int, dir, prefix string, levels int, left *int, out *[]Found) {
	defer unix.Close(fd)
	if levels == 0 || *left <= 0 {
		return
	}
	names, err := children(fd)
	if err != nil {
		return
	}
	for _, name := range names {
		*left--
		sub := dir + "/" + name
		if strings.HasPrefix(name, prefix) {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
				*out = append(*out, Found{sub, time.Unix(st.Mtim.Unix()), int(st.Uid)})
			}
			continue
		}
		if below, err := openDir(fd, name); err == nil {
			search(below, sub, prefix, levels-1, left, out)
		}
	}
}
