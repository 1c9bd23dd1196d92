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
	why, err := tcpReach(proc.Path(pid, "net/"), sockets, family)
	if err == nil && why == "" {
		why, err = udpReach(proc.Path(pid, "net/"), sockets)
	}
	if err == nil && why == "" {
		why, err = unixReach(pid, sockets)
	}
	if err != nil {
		return "its sockets cannot be looked at: " + err.Error()
	}
	return why
}

// States of proc_net(5).
const (
	tcpEstablished = "01"
	tcpListening   = "0A"
	unixAccepts    = "00010000"
	unixDatagram   = "0002"
	udpUnconnected = "07"
)

// tcpReach searches for the sockets in the TCP tables of a directory. A connection with both ends in this network namespace
// has two lines there, whose local and remote addresses are swapped. If only one end is an IPv6 socket, with a mapped
// address, the lines are in different tables.
func tcpReach(dir string, sockets, family map[string]bool) (string, error) {
	connected, within := map[string]string{}, map[string]bool{}
	// The tables show each four bytes of an address as a number. This begins a mapped one (::ffff:0:0/96).
	mapped := fmt.Sprintf("%016X%08X", 0, binary.NativeEndian.Uint32([]byte{0, 0, 0xff, 0xff}))
	for _, table := range []string{"tcp", "tcp6"} {
		listens := false
		err := eachLine(dir+table, func(field []string) {
			if len(field) < 10 {
				return
			}
			local, remote := strings.TrimPrefix(field[1], mapped), strings.TrimPrefix(field[2], mapped)
			state, ino := field[3], field[9]
			listens = listens || state == tcpListening && sockets[ino]
			if state == tcpEstablished && sockets[ino] {
				connected[local+" "+remote] = table
			}
			if state == tcpEstablished && family[ino] {
				within[remote+" "+local] = true
			}
		})
		if err != nil {
			return "", err
		}
		if listens {
			return "it listens on a socket (" + table + ")", nil
		}
	}
	for c, table := range connected {
		if !within[c] {
			return "it is connected by a socket (" + table + ")", nil
		}
	}
	return "", nil
}

// udpReach searches for sockets that take datagrams from anybody. One that is connected, as for a question to a name
// server, takes them from its peer only.
func udpReach(dir string, sockets map[string]bool) (why string, err error) {
	for _, table := range []string{"udp", "udp6"} {
		err = eachLine(dir+table, func(field []string) {
			if len(field) >= 10 && field[3] == udpUnconnected && sockets[field[9]] {
				why = "it takes datagrams from a socket (" + table + ")"
			}
		})
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// unixReach searches for listening sockets, and named ones that take datagrams, in the table of unix sockets. A name in
// that table may have line ends, and so any process may write lines of its own. What a line says is confirmed.
func unixReach(pid int, sockets map[string]bool) (why string, err error) {
	err = eachLine(proc.Path(pid, "net/unix"), func(field []string) {
		if len(field) < 7 || !sockets[field[6]] {
			return
		}
		switch {
		case field[3] == unixAccepts:
			// Once is enough, however many lines there are.
			delete(sockets, field[6])
			if confirmed(pid, field[6], unixListens) {
				why = "it listens on a unix socket"
			}
		case field[4] == unixDatagram && len(field) > 7 && confirmed(pid, field[6], unixIsDatagram):
			why = "it takes datagrams from a unix socket"
		}
	})
	return why, err
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

// confirmed asks the kernel whether a line about a unix socket is true. Where it does not tell, the line is believed: in
// another network namespace, or without sock_diag(7).
func confirmed(pid int, ino string, ask func(ino uint32) (bool, error)) bool {
	n, _ := strconv.ParseUint(ino, 10, 32)
	yes, err := ask(uint32(n))
	if err == nil || !errors.Is(err, unix.ENOENT) || FindsPeers() != nil {
		return yes || err != nil
	}
	theirs, err := proc.Readlink(proc.Path(pid, "ns/net"))
	ours, _ := proc.Readlink("/proc/self/ns/net")
	return err != nil || theirs != ours
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
