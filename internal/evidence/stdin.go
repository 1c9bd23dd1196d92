package evidence

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Far says what became of the other end of a process's standard input.
type Far uint8

// The answers. Only Severed proves anything.
const (
	FarUnknown Far = iota // it cannot be known: no permission, another kind of file, unread data, another network namespace
	FarHeld               // some process holds it
	Severed               // no process holds it, and none ever can again
)

// Stdin is the state of a process's standard input.
type Stdin struct {
	Far Far
	// Why says how it was found out, or why not.
	Why string
	// Peer is the inode of the pipe, or of the socket's other end; 0 when not known.
	Peer uint64
	// Socket says that Peer is a socket.
	Socket bool
}

// StdinOf finds out whether any process can still write to the standard input of a process.
//
// For a pipe the kernel itself counts the writers. tee(2) from a second reader answers 0 only when there are none,
// EAGAIN when there are, and takes nothing out. That covers writers of every user and pid namespace, which no search
// through /proc/PID/fd could. For a unix socket sock_diag(7) names the peer; a peer without an inode is closed.
func StdinOf(pid int) Stdin {
	link, err := proc.Readlink(proc.Path(pid, "fd/0"))
	if err != nil {
		return Stdin{Why: "standard input cannot be looked at: " + err.Error()}
	}
	if ino, ok := inode(link, pipePrefix); ok {
		return pipeState(pid, ino)
	}
	if ino, ok := inode(link, socketPrefix); ok {
		return socketState(pid, ino)
	}
	return Stdin{Why: "standard input is " + link + ", which has no other end"}
}

// inode reads "pipe:[123]".
func inode(link, prefix string) (uint64, bool) {
	rest, ok := strings.CutPrefix(link, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64)
	return n, err == nil
}

func pipeState(pid int, ino uint64) Stdin {
	s := Stdin{Peer: ino}
	// This second reader cannot block and consumes nothing.
	in, err := unix.Open(proc.Path(pid, "fd/0"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		s.Why = "its pipe cannot be opened: " + err.Error()
		return s
	}
	defer unix.Close(in)
	if !samePipe(in, ino) {
		s.Why = "its standard input changed meanwhile"
		return s
	}
	var sink [2]int
	if err := unix.Pipe2(sink[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		s.Why = "no pipe to compare with: " + err.Error()
		return s
	}
	defer unix.Close(sink[0])
	defer unix.Close(sink[1])
	n, err := unix.Tee(in, sink[1], 1, unix.SPLICE_F_NONBLOCK)
	switch {
	case err == unix.EAGAIN:
		s.Far, s.Why = FarHeld, "its pipe has a writer"
	case err != nil:
		s.Why = "its pipe cannot be examined: " + err.Error()
	case n > 0:
		s.Why = "its pipe holds unread data, so its writers cannot be counted"
	default:
		s.Far, s.Why = Severed, "no process holds the other end of its stdin (pipe "+strconv.FormatUint(ino, 10)+")"
	}
	return s
}

func samePipe(fd int, ino uint64) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Ino == ino && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

func socketState(pid int, ino uint64) Stdin {
	s := Stdin{Socket: true}
	if same, err := sameNetwork(pid); err != nil {
		s.Why = "its network namespace cannot be read: " + err.Error()
		return s
	} else if !same {
		s.Why = "its socket is in another network namespace"
		return s
	}
	peer, err := unixPeer(ino)
	switch {
	case err != nil:
		s.Why = "its socket cannot be examined: " + err.Error()
	case peer != 0:
		s.Far, s.Peer, s.Why = FarHeld, peer, "the other end of its socket is open"
	default:
		s.Far, s.Why = Severed, "no process holds the other end of its stdin (socket "+strconv.FormatUint(ino, 10)+")"
	}
	return s
}

func sameNetwork(pid int) (bool, error) {
	theirs, err := proc.Readlink(proc.Path(pid, "ns/net"))
	if err != nil {
		return false, err
	}
	ours, err := proc.Readlink("/proc/self/ns/net")
	return err == nil && theirs == ours, err
}

// Holders are the processes that hold the other end of a standard input: the write end of the pipe, or the peer socket. It is for
// reports: a process whose descriptor table could not be read is missing.
func (s Stdin) Holders(of Ends) []int {
	if s.Peer == 0 {
		return nil
	}
	return of.writers[s.file()]
}

// file is what /proc/PID/fd shows for the other end.
func (s Stdin) file() string {
	prefix := pipePrefix
	if s.Socket {
		prefix = socketPrefix
	}
	return prefix + strconv.FormatUint(s.Peer, 10) + "]"
}
