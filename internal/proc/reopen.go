package proc

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Reopen opens the file behind a descriptor once more, with O_NONBLOCK. The flags of an inherited descriptor belong to its
// other holders as well, so they stay as they are. It works for pipes of the same user (proc_pid_fd(5)); sockets cannot be
// reopened.
func Reopen(fd, mode int) (int, error) {
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, fmt.Errorf("reopen descriptor %d: %w", fd, err)
	}
	return again, nil
}

// OpenNull opens /dev/null for reading and writing, close-on-exec.
func OpenNull() (int, error) { return unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0) }
