package evidence

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Reached says how one of some processes can be reached, whatever became of its standard input. That is a socket on which it listens
// or takes datagrams, a TCP connection to a process outside of the tree that they are in, or a FIFO with a name. It is "" if there is
// none. If the sockets cannot be read, the answer says so: the process may be reachable.
func Reached(pids, tree []int) string {
	sockets, family, owner := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, pid := range pids {
		own, err := socketsOf(pid)
		switch {
		case errors.Is(err, proc.ErrGone):
			continue
		case err != nil:
			return fmt.Sprintf("pid %d: its descriptors cannot be looked at: %v", pid, err)
		case readsFIFO(pid):
			return fmt.Sprintf("pid %d can be reached: it reads a FIFO", pid)
		}
		for ino := range own {
			sockets[ino], owner[ino] = true, pid
		}
	}
	if len(sockets) == 0 {
		return ""
	}
	for _, pid := range tree {
		own, _ := socketsOf(pid)
		maps.Copy(family, own)
	}
	open, err := openSockets(pids, sockets, family)
	if err != nil {
		return "its sockets cannot be looked at: " + err.Error()
	}
	for ino, how := range open {
		// The other end of a unix socket, or of one for datagrams, is no way in for anybody else.
		if how != connected+"(unix)" && !strings.HasPrefix(how, connected+"(udp") {
			return fmt.Sprintf("pid %d can be reached: it %s", owner[ino], how)
		}
	}
	return ""
}

// readsFIFO reports whether a process reads from a FIFO, which others find by its name.
func readsFIFO(pid int) (reads bool) {
	_ = proc.EachDescriptor(pid, func(link, to string, err error) bool {
		reads = err == nil && strings.HasPrefix(to, "/") && isOpen(link, forReading) && isFIFO(link)
		return !reads
	})
	return reads
}

// isFIFO asks without a question to a file server, which may not answer.
func isFIFO(link string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}
