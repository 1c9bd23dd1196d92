package evidence

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// The states of a socket in sock_diag(7) (include/net/tcp_states.h).
const (
	stateConnected = 1
	stateListens   = 10
)

// unixSocket is what the kernel says about a unix socket.
type unixSocket struct {
	state byte
	name  string
	// peer is the inode of the other end. It is 0 if that is closed, or not named.
	peer  uint64
	named bool
	// waiting are the other ends of connections that are not accepted yet.
	waiting []uint64
}

// dumpSize is how much the kernel sends at a time, at most.
const dumpSize = 64 << 10

// unixSockets asks for all unix sockets of this network namespace that listen or are connected, by their inodes. That is one walk
// over all there are. To answer about a single one, the kernel walks over them as well: thousands of questions take minutes.
func unixSockets() (map[uint64]unixSocket, error) {
	fd, err := askDiag(unix.NLM_F_DUMP, 1<<stateConnected|1<<stateListens, 0, udiagShowName|udiagShowPeer|udiagShowIcons)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	all, buf := map[uint64]unixSocket{}, make([]byte, dumpSize)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return all, fmt.Errorf("ask sock_diag for all sockets: %w", err)
		}
		if over, err := addUnixSockets(all, buf[:n]); over || err != nil {
			return all, err
		}
	}
}

// addUnixSockets reads a part of the answer. over says that it was the last one.
func addUnixSockets(all map[uint64]unixSocket, b []byte) (over bool, err error) {
	ne := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		length := int(ne.Uint32(b))
		if ne.Uint16(b[4:]) == unix.NLMSG_DONE {
			return true, nil
		}
		if length < unix.SizeofNlMsghdr+8 || length > len(b) {
			break
		}
		ino := ne.Uint32(b[unix.SizeofNlMsghdr+4:])
		if all[uint64(ino)], err = parseUnixSocket(b[:length], ino); err != nil {
			delete(all, uint64(ino))
			return true, err
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return len(b) > 0, nil
}
