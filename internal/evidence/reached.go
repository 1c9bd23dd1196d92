package evidence

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Reached says how a process can be reached, whatever became of its standard input. That is a socket on which it listens
// or takes datagrams, a TCP connection to a process outside of its own tree, or a FIFO with a name. It is "" if there is
// none. If the sockets cannot be read, the answer says so: the process may be reachable.
func Reached(pid int, tree []int) string {
	sockets, err := socketsOf(pid)
	switch {
	case errors.Is(err, proc.ErrGone):
		return ""
	case err != nil:
		return "its descriptors cannot be looked at: " + err.Error()
	}
	if readsFIFO(pid) {
		return "it reads a FIFO"
	}
	if len(sockets) == 0 {
		return ""
	}
	family := map[string]bool{}
	for _, member := range tree {
		theirs, _ := socketsOf(member)
		for ino := range theirs {
			family[ino] = true
		}
	}
	open, err := openSockets(pid, sockets, family)
	if err != nil {
		return "its sockets cannot be looked at: " + err.Error()
	}
	for _, how := range open {
		// The other end of a unix socket, or of one for datagrams, is no way in for anybody else.
		if how != connected+"(unix)" && !strings.HasPrefix(how, connected+"(udp") {
			return "it " + how
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
