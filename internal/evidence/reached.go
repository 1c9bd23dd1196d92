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
	if why := named(pid); why != "" || len(sockets) == 0 {
		return why
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

// named says what else a process reads from that others find by a name: a FIFO, or a socket of virtual machines, of which
// no table tells more (vsock(7)).
func named(pid int) (why string) {
	_ = proc.EachDescriptor(pid, func(link, to string, err error) bool {
		switch {
		case err != nil:
		case strings.HasPrefix(to, socketPrefix):
			var name [16]byte
			if n, err := unix.Getxattr(link, "system.sockprotoname", name[:]); err == nil && strings.HasPrefix(string(name[:n]), "AF_VSOCK") {
				why = "it has a vsock socket"
			}
		case strings.HasPrefix(to, "/") && isOpen(link, forReading) && isFIFO(link):
			why = "it reads a FIFO"
		}
		return why == ""
	})
	return why
}

// isFIFO asks without a question to a file server, which may not answer.
func isFIFO(link string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}
