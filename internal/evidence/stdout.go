package evidence

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Stdout says where the standard output of a process goes. elsewhere is true for a terminal or a file, which any
// process may read at any time, but not for /dev/null. It is also true for a pipe or socket unless its other end is closed
// or held by a process in sight. systemd-journald, for example, is out of sight to all but root. readers are the processes
// that have the same pipe open for reading, or hold the other end of the socket. of has those in sight.
func Stdout(pid int, of Ends) (elsewhere bool, readers []int) {
	link, err := proc.Readlink(proc.Path(pid, "fd/1"))
	if err != nil {
		return !errors.Is(err, proc.ErrGone), nil
	}
	if ino, ok := inode(link, socketPrefix); ok {
		far := socketState(pid, ino)
		if far.Far == Severed {
			return false, nil
		}
		readers = of.readers[far.file()]
		return len(readers) == 0, readers
	}
	if strings.HasPrefix(link, pipePrefix) {
		readers = of.readers[link]
		return len(readers) == 0 && mayBeRead(pid), readers
	}
	return link != "/dev/null", nil
}

// mayBeRead reports whether any process may read from the pipe that is the standard output of a process. The kernel itself
// counts the readers, those of every user and pid namespace. A second writer, which writes nothing, shows if there are any.
func mayBeRead(pid int) bool {
	out, err := unix.Open(proc.Path(pid, "fd/1"), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(out)
	end := []unix.PollFd{{Fd: int32(out)}}
	proc.Poll(end, 0)
	return end[0].Revents&unix.POLLERR == 0
}
