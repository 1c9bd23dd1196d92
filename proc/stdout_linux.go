package proc

import (
	"slices"
	"strings"
)

// Stdout says where the standard output of a process goes. elsewhere is true for a terminal or a file, which any
// process may read at any time, but not for /dev/null. It is also true for a socket unless its other end is closed or
// held by a process in sight. systemd-journald, for example, is out of sight to all but root. readers are the processes
// that have the same pipe open for reading, or hold the other end of the socket. of is what Readers has found.
func (r *Reader) Stdout(pid int, of map[string][]int) (elsewhere bool, readers []int) {
	link, err := readlink(path(pid, "fd/1"))
	if ino, ok := inode(link, socketPrefix); ok {
		far := socketState(pid, ino)
		if far.Far == Severed {
			return false, nil
		}
		readers = of[far.file()]
		return len(readers) == 0, readers
	}
	switch {
	case err != nil, link == "/dev/null":
		return false, nil
	case !strings.HasPrefix(link, pipePrefix):
		return true, nil
	}
	return false, of[link]
}

// How /proc/PID/fd names files that have an inode only.
const (
	pipePrefix   = "pipe:["
	socketPrefix = "socket:["
)

// Readers finds which of some processes have a pipe open for reading, or hold a socket, by the pipe or socket. Descriptor
// tables that cannot be read are skipped.
func (r *Reader) Readers(pids []int) map[string][]int {
	found := map[string][]int{}
	for _, pid := range pids {
		_ = eachDescriptor(pid, func(link, to string, err error) bool {
			if err == nil && !slices.Contains(found[to], pid) &&
				(strings.HasPrefix(to, socketPrefix) || strings.HasPrefix(to, pipePrefix) && isOpen(link, forReading)) {
				found[to] = append(found[to], pid)
			}
			return true
		})
	}
	return found
}
