package proc

import "strings"

// Stdout says where the standard output of a process goes. elsewhere is true for a terminal or a file, which any
// process may read at any time, but not for /dev/null. holders are the processes among pids that have the same pipe
// open, at either end. For a socket there are none: its other end belongs to a socket pair, as gateways make one for
// both directions at once. Descriptor tables that cannot be read are skipped.
func (r *Reader) Stdout(pid int, pids []int) (elsewhere bool, holders []int) {
	link, err := readlink(path(pid, "fd/1"))
	switch {
	case err != nil, link == "/dev/null", strings.HasPrefix(link, "socket:["):
		return false, nil
	case !strings.HasPrefix(link, "pipe:["):
		return true, nil
	}
	for _, p := range pids {
		if r.holds(p, link, false) {
			holders = append(holders, p)
		}
	}
	return false, holders
}
