package supervise

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// The supervisor tells its anchor what a recovery needs: the server, and the leaf with its control files open. So the
// anchor needs no record and has to open no file. The letters go through a socket pair. The anchor reads each as it
// comes and keeps the last.

// letter is what the supervisor has written last.
type letter struct {
	// closed says that the session is over, and code is its exit code. What it could not end is left to reap.
	closed bool
	code   int
	// server is the server; zero when there is none.
	server proc.ID
	// leaf is the leaf; nil when there is none.
	leaf *cgroup.Leaf
}

// postLetter writes to the anchor. A session without an anchor has no mailbox. If the mailbox is full the letter is lost,
// and the anchor finds what it needs by the record or the session's id.
func (c *common) postLetter(l letter) {
	if c.hand.Mailbox < 0 {
		return
	}
	text := fmt.Sprintf("%t %d %s ", l.closed, l.code, l.server)
	var rights []byte
	if l.leaf != nil {
		text += l.leaf.Dir
		rights = unix.UnixRights(l.leaf.Descriptors()...)
	}
	if err := unix.Sendmsg(c.hand.Mailbox, []byte(text), rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err != nil && rights != nil {
		_ = unix.Sendmsg(c.hand.Mailbox, []byte(text), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
}

// openMailbox makes the socket pair: the anchor's end and the supervisor's.
func openMailbox() (ours, theirs int) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1
	}
	return pair[0], pair[1]
}

// letterSize bounds what is read of a letter, in bytes. A leaf with a longer path is found by the session's id.
const letterSize = 512

// readLetters reads the letters that have come, and returns the last one. The leaves of earlier ones are closed.
func readLetters(fd int, last *letter) *letter {
	for fd >= 0 {
		text, rights := make([]byte, letterSize), make([]byte, unix.CmsgSpace(4*8))
		n, m, flags, _, err := unix.Recvmsg(fd, text, rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return last
		}
		l, ok := parseLetter(string(text[:n]), received(rights[:m]))
		if !ok {
			continue
		}
		if flags&unix.MSG_TRUNC != 0 {
			l.forget()
			l.leaf = nil
		}
		last.forget()
		last = l
	}
	return last
}

// forget closes the leaf that came with a letter.
func (l *letter) forget() {
	if l != nil && l.leaf != nil {
		l.leaf.Close()
	}
}

// received are the descriptors that came with a letter.
func received(rights []byte) []int {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	var fds []int
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// parseLetter reads a letter. Descriptors that are not its leaf's are closed.
func parseLetter(text string, fds []int) (*letter, bool) {
	part := strings.SplitN(text, " ", 4)
	if len(part) != 4 {
		closeAll(fds)
		return nil, false
	}
	l := &letter{closed: part[0] == "true"}
	l.code, _ = strconv.Atoi(part[1])
	l.server, _ = proc.ParseID(part[2])
	if part[3] != "" && len(fds) > 1 {
		l.leaf = cgroup.Adopt(part[3], fds)
	} else {
		closeAll(fds)
	}
	return l, true
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
