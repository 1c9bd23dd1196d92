package evidence

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Sockets are those of the machine, as far as they can be read, with the processes that have them. They are read when a question
// needs them, and once: the zero value is ready. The kernel itself says which socket is whose. No process has a word in that.
type Sockets struct {
	// unix are the unix sockets, and accepted those of them that came from one that listens, by its name.
	unix     map[uint64]unixSocket
	accepted map[string][]uint64
	// listening are the addresses of the TCP sockets that listen. connections are those of TCP, by local port, and ends the sockets
	// at their ends.
	listening   map[uint64]string
	connections map[string][]connection
	ends        map[string]uint64
	err         error
	// holders are the processes that have a socket.
	holders map[uint64][]int
}

// connection is one end of a connection of TCP. One that is not accepted yet has no inode at this end.
type connection struct {
	ino           uint64
	local, remote string
}

// Users finds out which of the listeners listen, on a unix socket or on TCP, and are in use: a process outside is connected. It gives
// that process for each. inside are all processes of the same session. What these have with each other does not count, nor does
// another user's process. One whose descriptors cannot be read is not found, nor is one in another network namespace. With
// an error there may be more users.
func (s *Sockets) Users(listeners, inside []int) (map[int]int, error) {
	users, known, in := map[int]int{}, map[uint64]int{}, map[int]bool{}
	for _, pid := range inside {
		in[pid] = true
	}
	for _, pid := range listeners {
		if same, err := sameNetwork(pid); err != nil || !same {
			continue
		}
		eachSocket(pid, func(ino uint64) {
			if !s.listens(ino) {
				return
			}
			by, asked := known[ino]
			if !asked { // Others may have it too.
				by = s.user(ino, in)
				known[ino] = by
			}
			if by > 0 {
				users[pid] = by
			}
		})
	}
	return users, s.err
}

// listens reports whether others can connect to a socket.
func (s *Sockets) listens(ino uint64) bool {
	if s.unix == nil {
		s.readUnix()
		s.err = errors.Join(s.err, s.readTCP())
	}
	u := s.unix[ino]
	return s.listening[ino] != "" || u.state == stateListens && u.name != ""
}

func (s *Sockets) readUnix() {
	s.unix, s.err = unixSockets()
	if s.accepted = map[string][]uint64{}; s.unix == nil {
		s.unix = map[uint64]unixSocket{}
	}
	for ino, u := range s.unix {
		if u.state == stateConnected && u.name != "" { // One that was accepted has the name of the one that listens.
			s.accepted[u.name] = append(s.accepted[u.name], ino)
		}
	}
}

func (s *Sockets) readTCP() error {
	s.listening, s.connections, s.ends = map[uint64]string{}, map[string][]connection{}, map[string]uint64{}
	for _, table := range []string{"tcp", "tcp6"} {
		err := eachLine(proc.Path(unix.Getpid(), "net/"+table), func(field []string) {
			if len(field) < 10 {
				return
			}
			ino, ok := inode(socketPrefix+field[9]+"]", socketPrefix)
			if !ok {
				return
			}
			switch local, remote := unmapped(field[1]), unmapped(field[2]); field[3] {
			case inetConnected:
				_, port, _ := strings.Cut(local, ":")
				s.connections[port] = append(s.connections[port], connection{ino, local, remote})
				s.ends[local+" "+remote] = ino
			case tcpListens:
				s.listening[ino] = local
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// user is a process of this user outside that is connected to a socket that listens; 0 for none.
func (s *Sockets) user(ino uint64, in map[int]bool) int {
	s.readHolders()
	var far []uint64
	u := s.unix[ino]
	far = append(far, u.waiting...)
	for _, near := range s.accepted[u.name] {
		if s.within(near, in) {
			far = append(far, s.unix[near].peer)
		}
	}
	address, port, _ := strings.Cut(s.listening[ino], ":")
	for _, c := range s.connections[port] {
		to, _, _ := strings.Cut(c.local, ":")
		if (address == to || strings.Trim(address, "0") == "") && (c.ino == 0 || s.within(c.ino, in)) {
			far = append(far, s.ends[c.remote+" "+c.local])
		}
	}
	for _, end := range far {
		if end == 0 || s.within(end, in) {
			continue
		}
		for _, pid := range s.holders[end] {
			if uid, err := proc.UID(pid); err == nil && uid == unix.Getuid() {
				return pid
			}
		}
	}
	return 0
}

func (s *Sockets) readHolders() {
	if s.holders != nil {
		return
	}
	s.holders = map[uint64][]int{}
	all, err := proc.PIDs()
	s.err = errors.Join(s.err, err)
	for _, pid := range all {
		eachSocket(pid, func(ino uint64) { s.holders[ino] = append(s.holders[ino], pid) })
	}
}

// within reports whether a process of the session has a socket.
func (s *Sockets) within(ino uint64, in map[int]bool) bool {
	for _, pid := range s.holders[ino] {
		if in[pid] {
			return true
		}
	}
	return false
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
