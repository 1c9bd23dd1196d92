package proc

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseInherited closes all descriptors from 3 on that the next execve(2) would pass on: those that this process was given
// and has no use for. Its own are close-on-exec. Where /proc cannot be read, nothing is closed. No other thread may open or
// close files meanwhile: the number might be a new file's by the time it is closed.
func CloseInherited() {
	eachInherited(func(fd int) { _ = unix.Close(fd) })
}

// SealInherited keeps these descriptors from the next execve(2). Any thread may do so at any time, and again.
func SealInherited() { eachInherited(unix.CloseOnExec) }

// eachInherited visits the descriptors from 3 on that the next execve(2) passes on.
func eachInherited(visit func(fd int)) {
	for _, fd := range Descriptors() {
		if fd > 2 && isOpen(fd, false) {
			visit(fd)
		}
	}
}

// isOpen reports whether a descriptor is open, and is or is not closed by the next execve(2).
func isOpen(fd int, closesOnExec bool) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && (flags&unix.FD_CLOEXEC != 0) == closesOnExec
}

// Descriptors lists the open descriptors of this process, in no order.
func Descriptors() []int {
	fds, _ := numericEntries("/proc/self/fd")
	return fds
}

// OwnDescriptors lists those from 3 on that the next execve(2) closes: what this process was given is not among them.
func OwnDescriptors() (own []int) {
	for _, fd := range Descriptors() {
		if fd > 2 && isOpen(fd, true) {
			own = append(own, fd)
		}
	}
	return own
}

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
