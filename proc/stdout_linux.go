package proc

import (
	"slices"
	"strings"
)

// Stdout says where the standard output of a process goes. elsewhere is true for a terminal or a file, which any
// process may read at any time, but not for /dev/null. readers are the processes that have the same pipe open for
// reading. For a socket there are none: its other end belongs to a socket pair, as gateways make one for both directions
// at once. of is what PipeReaders has found.
func (r *Reader) Stdout(pid int, of map[string][]int) (elsewhere bool, readers []int) {
	link, err := readlink(path(pid, "fd/1"))
	switch {
	case err != nil, link == "/dev/null", strings.HasPrefix(link, "socket:["):
		return false, nil
	case !strings.HasPrefix(link, pipePrefix):
		return true, nil
	}
	return false, of[link]
}

const pipePrefix = "pipe:["

// PipeReaders finds which of some processes have a pipe open for reading, by the pipe. Descriptor tables that cannot be
// read are skipped.
func (r *Reader) PipeReaders(pids []int) map[string][]int {
	found := map[string][]int{}
	for _, pid := range pids {
		_ = eachDescriptor(pid, func(link, to string, err error) bool {
			if err == nil && strings.HasPrefix(to, pipePrefix) && !slices.Contains(found[to], pid) && isOpen(link, forReading) {
				found[to] = append(found[to], pid)
			}
			return true
		})
	}
	return found
}
