package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReadNow is read(2) on a descriptor that never blocks. The Go scheduler does not see the call. With unix.Read it
// hands all other goroutines to another thread as soon as the kernel lets another process run first. The kernel does so
// for the process that was written to. A relay with one processor then changes threads with nearly every message.
func ReadNow(fd uintptr, b []byte) (int, error) { return now(unix.SYS_READ, fd, b) }

// WriteNow is write(2) in the same way.
func WriteNow(fd uintptr, b []byte) (int, error) { return now(unix.SYS_WRITE, fd, b) }

func now(call, fd uintptr, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return 0, errno
		}
		return int(n), nil
	}
}
