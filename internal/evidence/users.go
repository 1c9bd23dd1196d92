package evidence

import (
	"errors"
	"maps"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Users finds out which of the listeners listen, on a unix socket or on TCP, and are in use: a process outside is connected. It gives
// that process for each. inside are all processes of the same session. What these have with each other does not count, nor does another
// user's process. One whose descriptors cannot be read is not found, nor is one in another network namespace.
//
// The kernel itself says which socket is whose. No process has a word in that.
func Users(listeners, inside []int) (map[int]int, error) {
	u := usage{holders: map[uint64][]int{}, names: map[string][]int{}, family: map[uint64]bool{}, tcp: map[uint64]bool{}, far: map[uint64][]int{}}
	for _, pid := range listeners {
		if same, err := sameNetwork(pid); err == nil && same {
			eachSocket(pid, func(ino uint64) { u.holders[ino] = append(u.holders[ino], pid) })
		}
	}
	if len(u.holders) == 0 {
		return nil, nil
	}
	if err := u.findListening(); err != nil || len(u.names)+len(u.ports) == 0 {
		return nil, err
	}
	for _, pid := range inside {
		eachSocket(pid, func(ino uint64) { u.family[ino] = true })
	}
	u.findConnected()
	maps.DeleteFunc(u.far, func(ino uint64, _ []int) bool { return ino == 0 || u.family[ino] })
	return u.search(inside)
}

// usage is one look at who uses what.
type usage struct {
	// holders are the listeners that have a socket, by its inode.
	holders map[uint64][]int
	// names and ports are what is listened to, with those that listen.
	names map[string][]int
	ports []listening
	// family are the sockets of the session.
	family map[uint64]bool
	// tcp are the sockets in the table of TCP, and connections the lines of those that are connected.
	tcp         map[uint64]bool
	connections []connection
	// far are the other ends of connections to what is listened to, with those that listen.
	far map[uint64][]int
}

// listening is a line of a socket that listens.
type listening struct {
	local string
	by    []int
}

// connection is a line of one that is connected.
type connection struct {
	ino           uint64
	local, remote string
}

// findListening finds the sockets that listen.
func (u *usage) findListening() error {
	for _, table := range []string{"tcp", "tcp6"} {
		err := eachLine(proc.Path(unix.Getpid(), "net/"+table), func(field []string) {
			if len(field) < 10 {
				return
			}
			ino, ok := inode(socketPrefix+field[9]+"]", socketPrefix)
			if u.tcp[ino] = true; !ok {
				return
			}
			switch by := u.holders[ino]; {
			case field[3] == inetConnected:
				u.connections = append(u.connections, connection{ino, unmapped(field[1]), unmapped(field[2])})
			case field[3] == tcpListens && len(by) > 0:
				u.ports = append(u.ports, listening{unmapped(field[1]), by})
			}
		})
		if err != nil {
			return err
		}
	}
	for ino, by := range u.holders {
		if u.tcp[ino] {
			continue
		}
		s, err := unixSocketOf(ino)
		if err == nil && s.state == stateListens && s.name != "" {
			u.names[s.name] = append(u.names[s.name], by...)
			for _, far := range s.waiting {
				u.far[far] = append(u.far[far], by...)
			}
		}
		if err != nil && !errors.Is(err, unix.ENOENT) { // no unix socket, or closed
			return err
		}
	}
	return nil
}

// findConnected finds the other ends of connections that were made to what is listened to. A connection that is not accepted yet has
// no inode at this end.
func (u *usage) findConnected() {
	at := map[string]uint64{}
	for _, c := range u.connections {
		at[c.local+" "+c.remote] = c.ino
	}
	for _, c := range u.connections {
		if c.ino != 0 && !u.family[c.ino] {
			continue
		}
		for _, l := range u.ports {
			if l.takes(c.local) {
				u.note(at[c.remote+" "+c.local], l.by)
			}
		}
	}
	if len(u.names) == 0 {
		return
	}
	for ino := range u.family {
		if u.tcp[ino] {
			continue
		}
		// One that was accepted has the name of the one that listens.
		if s, err := unixSocketOf(ino); err == nil && s.state == stateConnected && s.name != "" {
			u.note(s.peer, u.names[s.name])
		}
	}
}

// takes reports whether a connection to this local address is one to a socket that listens.
func (l listening) takes(local string) bool {
	address, port, _ := strings.Cut(l.local, ":")
	to, at, _ := strings.Cut(local, ":")
	return port == at && (address == to || strings.Trim(address, "0") == "")
}

// note notes the other end of a connection.
func (u *usage) note(far uint64, by []int) {
	if len(by) > 0 {
		u.far[far] = append(u.far[far], by...)
	}
}

// search finds the user's processes outside that have these other ends.
func (u *usage) search(inside []int) (map[int]int, error) {
	if len(u.far) == 0 {
		return nil, nil
	}
	all, err := proc.PIDs()
	if err != nil {
		return nil, err
	}
	skip, users := map[int]bool{}, map[int]int{}
	for _, pid := range inside {
		skip[pid] = true
	}
	for _, pid := range all {
		if uid, err := proc.UID(pid); skip[pid] || err != nil || uid != unix.Getuid() {
			continue
		}
		eachSocket(pid, func(ino uint64) {
			for _, by := range u.far[ino] {
				users[by] = pid
			}
		})
	}
	return users, nil
}

// eachSocket visits the sockets of a process, as far as they can be read.
func eachSocket(pid int, visit func(ino uint64)) {
	_ = proc.EachDescriptor(pid, func(_, to string, err error) bool {
		if ino, ok := inode(to, socketPrefix); ok && err == nil {
			visit(ino)
		}
		return true
	})
}
