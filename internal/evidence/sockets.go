package evidence

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// States of proc_net(5), and a type of unix sockets.
const (
	inetConnected  = "01"
	tcpListens     = "0A"
	udpUnconnected = "07"
	unixAccepts    = "00010000"
	unixConnected  = "03"
	unixDatagram   = "0002"
)

// How a socket is open to others; the table follows.
const (
	listens   = "listens on a socket "
	datagrams = "takes datagrams from a socket "
	connected = "is connected by a socket "
)

// openSockets searches the network namespaces of processes for sockets that are open to others, and says how each is, by
// its inode. A connection within the family is not.
func openSockets(pids []int, sockets, family map[string]bool) (open map[string]string, err error) {
	open = map[string]string{}
	for _, dir := range networks(pids) {
		if err := errors.Join(inetSockets(dir, sockets, family, open), unixSocketsIn(dir, sockets, family, open)); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// networks are the directories with the tables of the processes' network namespaces. Our own is there once, and cannot go with one of
// them meanwhile.
func networks(pids []int) (dirs []string) {
	isOwn := func(pid int) bool {
		same, err := sameNetwork(pid)
		return err == nil && same
	}
	for _, pid := range pids {
		if !isOwn(pid) {
			dirs = append(dirs, proc.Path(pid, "net/"))
		}
	}
	if len(dirs) < len(pids) {
		dirs = append(dirs, "/proc/self/net/")
	}
	return dirs
}

// unixSocketsIn searches the table of unix sockets.
func unixSocketsIn(dir string, sockets, family map[string]bool, open map[string]string) error {
	var table map[uint64]unixSocket // read once, and only if there is something to look for
	// A name in this table may have line ends, and so any process may write lines of its own. They only ever spare a process.
	return eachLine(dir+"unix", func(field []string) {
		if len(field) < 7 || !sockets[field[6]] {
			return
		}
		switch ino := field[6]; {
		case field[3] == unixAccepts:
			open[ino] = listens + "(unix)"
		case field[4] == unixDatagram:
			if len(field) > 7 {
				open[ino] = datagrams + "(unix)"
			}
		case field[5] == unixConnected && open[ino] == "":
			if table == nil {
				table, _ = unixSockets()
			}
			if !endsWithin(table, ino, family) {
				open[ino] = connected + "(unix)"
			}
		}
	})
}

// inetSockets searches the tables of TCP and UDP. A connection with both ends in this network namespace has two lines there,
// whose local and remote addresses are swapped. If only one end is an IPv6 socket, with a mapped address, the lines are in
// different tables.
func inetSockets(dir string, sockets, family map[string]bool, open map[string]string) error {
	type end struct{ ino, how string }
	of, within := map[string]end{}, map[string]bool{} // by protocol and addresses
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		err := eachLine(dir+table, func(field []string) {
			if len(field) < 10 || !sockets[field[9]] && !family[field[9]] {
				return
			}
			ino, local, remote := field[9], unmapped(field[1]), unmapped(field[2])
			switch {
			case field[3] == inetConnected:
				of[table[:3]+local+" "+remote] = end{ino, connected + "(" + table + ")"}
				far := table[:3] + remote + " " + local
				within[far] = within[far] || family[ino]
			case !sockets[ino]:
			case field[3] == tcpListens && table[0] == 't':
				open[ino] = listens + "(" + table + ")"
			case field[3] == udpUnconnected && table[0] == 'u':
				open[ino] = datagrams + "(" + table + ")"
			}
		})
		if err != nil {
			return err
		}
	}
	for ends, e := range of {
		if sockets[e.ino] && !within[ends] {
			open[e.ino] = e.how
		}
	}
	return nil
}

// unmapped makes an IPv4 address of one that is mapped to IPv6 (::ffff:0:0/96). The tables show each four bytes as a number.
func unmapped(address string) string {
	mapped := fmt.Sprintf("%016X%08X", 0, binary.NativeEndian.Uint32([]byte{0, 0, 0xff, 0xff}))
	return strings.TrimPrefix(address, mapped)
}

// endsWithin reports whether the other end of a unix socket is in a family, or closed.
func endsWithin(table map[uint64]unixSocket, ino string, family map[string]bool) bool {
	number, _ := strconv.ParseUint(ino, 10, 32)
	s := table[number]
	return s.named && (s.peer == 0 || family[strconv.FormatUint(s.peer, 10)])
}

// eachLine visits the lines of a table, split into words. A table that does not exist counts as empty.
func eachLine(table string, visit func(field []string)) error {
	f, err := os.Open(table)
	if errors.Is(err, os.ErrNotExist) {
		return nil // without IPv6, or gone
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		visit(strings.Fields(lines.Text()))
	}
	return lines.Err()
}

// socketsOf lists the inodes of the sockets that a process has open.
func socketsOf(pid int) (map[string]bool, error) {
	out := map[string]bool{}
	var unread error
	err := proc.EachDescriptor(pid, func(_, to string, err error) bool {
		if err != nil && !errors.Is(err, unix.ENOENT) {
			unread = err
			return false
		}
		if ino, ok := inode(to, socketPrefix); ok {
			out[strconv.FormatUint(ino, 10)] = true
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if unread != nil {
		return nil, unread
	}
	return out, nil
}
