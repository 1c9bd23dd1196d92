package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Offsets in struct linux_dirent64 (getdents64(2)).
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// DirsAt lists the directories in a directory that is open, with O_PATH or not. The order is the kernel's.
func DirsAt(dir int) ([]string, error) {
	var out []string
	err := entries(dir, func(name string, kind byte) {
		if kind == unix.DT_DIR {
			out = append(out, name)
		}
	})
	return out, err
}

// entries visits what is in a directory that is open, without "." and "..".
func entries(dir int, visit func(name string, kind byte)) error {
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("list directory: %w", err)
		}
		if n <= 0 {
			return nil
		}
		for entry := buf[:n]; len(entry) > direntName; {
			length := int(binary.NativeEndian.Uint16(entry[direntLength:]))
			name, _, _ := bytes.Cut(entry[direntName:length], []byte{0})
			if string(name) != "." && string(name) != ".." {
				visit(string(name), entry[direntType])
			}
			entry = entry[length:]
		}
	}
}
