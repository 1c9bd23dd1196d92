package session

import (
	"golang.org/x/sys/unix"

	"mcp-tether/proc"
)

// createUnnamed makes a lock file that gets its name once it is locked: a process that is killed before leaves nothing.
// EEXIST says that another process has made the lock meanwhile; any other error, that it takes another way.
func createUnnamed(dir, name string) (int, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, err
	}
	if err := lockOrClose(fd); err != nil {
		return -1, err
	}
	if err := proc.Link(fd, name); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
