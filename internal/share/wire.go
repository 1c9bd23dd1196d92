package share

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// hello is what a front says first, with its streams.
type hello struct {
	// Session is the front, as it knows itself, and Gateway the process that started it.
	Session proc.ID `json:"session"`
	Gateway proc.ID `json:"gateway"`
	// Parts are short hashes of the parts of the key, for ps.
	Parts map[string]string `json:"parts"`
}

// farewell is the only other word of a front. One that ends says nothing.
type farewell struct {
	// Asleep says that its server may sleep: it has been idle for long enough.
	Asleep bool `json:"asleep"`
}

// Verdict is a message of a host to a front: its session has a place, or is refused, or over, or needs another host.
type Verdict struct {
	Next Next   `json:"next,omitempty"`
	Why  string `json:"why,omitempty"`
	// Code is the exit code of a session that is over, or of the server that has ended.
	Code int `json:"code"`
}

// Next says where a session goes on.
type Next string

// The places where a session goes on. All but Here are the end of the connection.
const (
	Nowhere Next = ""     // it is over
	Here    Next = "here" // at this host, from now on
	Full    Next = "full" // at the host of the next slot
	Anew    Next = "anew" // with the next server: this one has ended
	Lost    Next = "lost" // no host says so: it was killed, or has ended without a word
)

// The descriptors of a hello, in order.
const (
	streamIn = iota
	streamOut
	streamErr
	streamCount
)

// maxMessage bounds a message between front and host, in bytes.
const maxMessage = 64 << 10

var errPeer = errors.New("the other side of the socket is not this user's")

func samePeer(fd int) error {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return fmt.Errorf("ask for the peer: %w", err)
	}
	if int(cred.Uid) != unix.Geteuid() {
		return fmt.Errorf("%w: uid %d", errPeer, cred.Uid)
	}
	return nil
}

func send(fd int, message any, fds ...int) error {
	b, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(fd, b, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// receive reads one message. The caller owns the descriptors that came with it; they are close-on-exec. The error is
// EAGAIN when there is no message yet, and errEnd when the peer is gone.
func receive(fd int, into any) (fds []int, err error) {
	buf := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(4*2*streamCount))
	n, oobn, flags, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, err
	}
	if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
		for i := range messages {
			more, _ := unix.ParseUnixRights(&messages[i])
			fds = append(fds, more...)
		}
	}
	switch {
	case n == 0:
		err = errEnd
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("message is too long")
	default:
		err = json.Unmarshal(buf[:n], into)
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	return fds, nil
}

var errEnd = errors.New("the other side is gone")

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
