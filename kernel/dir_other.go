//go:build unix && !linux

package kernel

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Open opens a file or directory close-on-exec.
func Open(name string, flags int) (int, error) {
	return unix.Open(name, flags|unix.O_CLOEXEC, 0)
}

// openBelow opens an entry of a directory, and follows no link.
func openBelow(dir int, name string, flags int, mode uint32) (int, error) {
	return unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
}

// openUnmounted opens a directory. What is mounted there is not looked at: run and reap need Linux.
func openUnmounted(_, name string) (int, error) {
	return Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// openUnnamed needs O_TMPFILE, which is Linux's.
func openUnnamed(int, uint32) (int, error) { return -1, unix.ENOSYS }

// openRegular opens a regular file for reading.
func openRegular(dir int, name string) (fd int, size int64, err error) {
	if fd, err = openBelow(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errRegular
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Size, nil
}

// Names lists the entries, without "." and "..".
func (d *Dir) Names() ([]string, error) {
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.Name, err)
	}
	f := os.NewFile(uintptr(fd), d.Name)
	defer f.Close()
	return f.Readdirnames(-1)
}

// LinkUnnamed needs Linux.
func (d *Dir) LinkUnnamed(int, string) error { return unix.ENOSYS }

// Connect connects a unix socket to the one in the directory.
func (d *Dir) Connect(socket int, name string) error {
	return unix.Connect(socket, &unix.SockaddrUnix{Name: d.Name + "/" + name})
}

// Modified is when a file was written to.
func Modified(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }
