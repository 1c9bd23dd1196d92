package proc

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Link gives a file that was opened without a name (O_TMPFILE, open(2)) its first name. The error is EEXIST when the name
// is taken, ENOENT without /proc.
func Link(fd int, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return fmt.Errorf("name descriptor %d %s: %w", fd, name, err)
	}
	return nil
}
