package stage

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Room is how many processes and threads there may be beside those that are here: by the limit of the user (RLIMIT_NPROC, which
// does not bind root), and by those of the cgroups (pids.max), as far as they can be seen.
func Room() int {
	room := math.MaxInt
	var limit unix.Rlimit
	if os.Geteuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil && limit.Cur < math.MaxInt32 {
		room = int(limit.Cur)
	}
	for _, dir := range pidsCgroups() {
		limit, err := readNumber(filepath.Join(dir, "pids.max"))
		if err != nil {
			continue // "max", or the root of the hierarchy
		}
		now, _ := readNumber(filepath.Join(dir, "pids.current"))
		room = min(room, limit-now)
	}
	return room
}

// pidsCgroups are the directories whose limits count: that of cgroup v2 or of v1's controller, and those above.
func pidsCgroups() (dirs []string) {
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "pids" {
			continue
		}
		root := "/sys/fs/cgroup"
		if parts[1] == "pids" {
			root += "/pids"
		}
		// In a container the path may be that of the machine, which is not to be seen; the mount is the container's own then.
		for path := parts[2]; ; path = filepath.Dir(path) {
			dirs = append(dirs, filepath.Join(root, path))
			if path == "/" || path == "." {
				break
			}
		}
	}
	return dirs
}

func readNumber(file string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
