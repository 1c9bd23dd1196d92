package proc

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Reopen opens what a descriptor refers to once more, without blocking, so that O_NONBLOCK concerns nobody who shares the
// first: an inherited descriptor's flags belong to its other holders as well. It works for pipes of our own user
// (proc_pid_fd(5)); sockets cannot be reopened.
func Reopen(fd, mode int) (int, error) {
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, fmt.Errorf("reopen descriptor %d: %w", fd, err)
	}
	return again, nil
}
