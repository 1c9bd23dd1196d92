//go:build unix && !linux

package proc

import "golang.org/x/sys/unix"

// ReadNow is read(2) on a descriptor that never blocks. With an error the count is 0.
func ReadNow(fd uintptr, b []byte) (int, error) {
	n, err := unix.Read(int(fd), b)
	return max(n, 0), err
}

// WriteNow is write(2) on a descriptor that never blocks. With an error the count is 0.
func WriteNow(fd uintptr, b []byte) (int, error) {
	n, err := unix.Write(int(fd), b)
	return max(n, 0), err
}
