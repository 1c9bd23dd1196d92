package proc

import "golang.org/x/sys/unix"

// CloseInherited closes all descriptors from 3 on that the next execve(2) would pass on: those that this process was given
// and has no use for. Its own are close-on-exec. Where /proc cannot be read, nothing is closed. No other thread may open or
// close files meanwhile: the number might be a new file's by the time it is closed.
func CloseInherited() {
	eachInherited(func(fd int) { _ = unix.Close(fd) })
}

// SealInherited keeps these descriptors from the next execve(2). Any thread may do so at any time, and again.
func SealInherited() { eachInherited(unix.CloseOnExec) }

func eachInherited(visit func(fd int)) {
	// Descriptors are few: a small buffer keeps the stack of a waiting process from growing.
	fds, _ := listNumbers("/proc/self/fd", make([]byte, 1<<10))
	for _, fd := range fds {
		if fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			visit(fd)
		}
	}
}

// Descriptors lists the open descriptors of this process, in no order.
func Descriptors() []int {
	fds, _ := listNumbers("/proc/self/fd", make([]byte, 1<<10))
	return fds
}

// OwnDescriptors lists those from 3 on that the next execve(2) closes: what this process was given is not among them.
func OwnDescriptors() (own []int) {
	for _, fd := range Descriptors() {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd > 2 && err == nil && flags&unix.FD_CLOEXEC != 0 {
			own = append(own, fd)
		}
	}
	return own
}
