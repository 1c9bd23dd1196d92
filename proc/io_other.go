//go:build unix && !linux

package proc

import "golang.org/x/sys/unix"

// ReadNow is read(2) on a descriptor that never blocks.
func ReadNow(fd uintptr, b []byte) (int, error) { return unix.Read(int(fd), b) }

// WriteNow is write(2) on a descriptor that never blocks.
func WriteNow(fd uintptr, b []byte) (int, error) { return unix.Write(int(fd), b) }
