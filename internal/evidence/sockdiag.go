package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// From linux/sock_diag.h and linux/unix_diag.h (sock_diag(7)).
const (
	sockDiagByFamily = 20
	udiagShowName    = 0x1
	udiagShowPeer    = 0x4
	udiagShowIcons   = 0x8
	unixDiagName     = 0
	unixDiagPeer     = 2
	unixDiagIcons    = 3
	unixDiagShutdown = 6
	rcvShutdown      = 1
	anyState         = 0xffffffff
	anyCookie        = 0xffffffff
)

// errNoPeer says that the answer named no peer.
var errNoPeer = errors.New("the kernel names no peer")

// FindsPeers asks the kernel for the other end of a pair of sockets, as StdinOf does. The error says what is missing:
// CONFIG_UNIX_DIAG, or the permission to ask (seccomp(2)).
func FindsPeers() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a pair of sockets: %w", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	var near, far unix.Stat_t
	if err := errors.Join(unix.Fstat(pair[0], &near), unix.Fstat(pair[1], &far)); err != nil {
		return fmt.Errorf("look at a pair of sockets: %w", err)
	}
	peer, err := unixPeer(near.Ino)
	if err != nil {
		return err
	}
	if peer != far.Ino {
		return errNoPeer
	}
	return nil
}

// unixPeer asks for the inode of the other end of a connected unix socket: 0 when that end is closed.
func unixPeer(ino uint64) (uint64, error) {
	b, err := unixDiag(uint32(ino), udiagShowPeer)
	if err != nil {
		return 0, err
	}
	s, err := parseUnixSocket(b, uint32(ino))
	if err == nil && !s.named {
		err = fmt.Errorf("socket %d: %w", ino, errNoPeer)
	}
	return s.peer, err
}

// unixDiag asks the kernel about a unix socket. show says what of it.
func unixDiag(ino, show uint32) ([]byte, error) {
	fd, err := askDiag(0, anyState, ino, show)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return nil, fmt.Errorf("ask sock_diag for socket %d: %w", ino, err)
	}
	return buf[:n], nil
}

// askDiag sends a question about unix sockets. The answer can be read from fd.
func askDiag(flags uint16, states, ino, show uint32) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG); err != nil {
		return -1, fmt.Errorf("open a sock_diag socket: %w", err)
	}
	// The kernel answers at once; the limit is against surprises.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})

	// A header, then struct unix_diag_req: family, protocol, pad, states, inode, what to show, cookie.
	const size = unix.SizeofNlMsghdr + 24
	ne := binary.NativeEndian
	msg := make([]byte, unix.SizeofNlMsghdr, size)
	ne.PutUint32(msg[0:], size)
	ne.PutUint16(msg[4:], sockDiagByFamily)
	ne.PutUint16(msg[6:], unix.NLM_F_REQUEST|flags)
	msg = append(msg, unix.AF_UNIX, 0, 0, 0)
	for _, field := range []uint32{states, ino, show, anyCookie, anyCookie} {
		msg = ne.AppendUint32(msg, field)
	}
	if err = unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("ask sock_diag: %w", err)
	}
	return fd, nil
}

// sizeofUnixDiagMsg is the fixed part of the answer: family, type, state, pad, inode, cookie.
const sizeofUnixDiagMsg = 16

// checked is one answer about this socket, without what follows it: a header, struct unix_diag_msg, then attributes.
func checked(b []byte, ino uint32) ([]byte, error) {
	ne := binary.NativeEndian
	if len(b) >= unix.SizeofNlMsghdr+4 && ne.Uint16(b[4:]) == unix.NLMSG_ERROR {
		return nil, fmt.Errorf("sock_diag refused socket %d: %w", ino, unix.Errno(-int32(ne.Uint32(b[unix.SizeofNlMsghdr:]))))
	}
	const least = unix.SizeofNlMsghdr + sizeofUnixDiagMsg
	if len(b) >= least && ne.Uint32(b[unix.SizeofNlMsghdr+4:]) == ino {
		if end := int(ne.Uint32(b)); end >= least && end <= len(b) {
			return b[:end], nil
		}
	}
	return nil, fmt.Errorf("sock_diag's answer for socket %d is malformed", ino)
}

// parseUnixSocket reads an answer about this socket.
func parseUnixSocket(b []byte, ino uint32) (s unixSocket, err error) {
	b, err = checked(b, ino)
	if err != nil {
		return s, err
	}
	ne := binary.NativeEndian
	s.state = b[unix.SizeofNlMsghdr+2]
	shut := false
	for at := unix.SizeofNlMsghdr + sizeofUnixDiagMsg; at+4 <= len(b); {
		length, kind := int(ne.Uint16(b[at:])), ne.Uint16(b[at+2:])
		if length < 4 || at+length > len(b) {
			break
		}
		switch value := b[at+4 : at+length]; {
		case kind == unixDiagName:
			s.name = string(value)
		case kind == unixDiagPeer && len(value) >= 4:
			s.peer, s.named = uint64(ne.Uint32(value)), true
		case kind == unixDiagShutdown && len(value) >= 1:
			shut = value[0]&rcvShutdown != 0
		case kind == unixDiagIcons:
			for ; len(value) >= 4; value = value[4:] {
				s.waiting = append(s.waiting, uint64(ne.Uint32(value)))
			}
		}
		at += (length + 3) &^ 3
	}
	// A peer without inode is closed if it shut this end down; otherwise it is a connection that was not accepted yet.
	s.named = s.named && (s.peer != 0 || shut)
	return s, nil
}
