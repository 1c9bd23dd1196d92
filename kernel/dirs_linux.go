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
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("open directory: %w", err)
	}
	defer unix.Close(fd)
	var out []string
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("list directory: %w", err)
		}
		if n <= 0 {
			return out, nil
		}
		for entry := buf[:n]; len(entry) > direntName; {
			length := int(binary.NativeEndian.Uint16(entry[direntLength:]))
			name, _, _ := bytes.Cut(entry[direntName:length], []byte{0})
			if entry[direntType] == unix.DT_DIR && string(name) != "." && string(name) != ".." {
				out = append(out, string(name))
			}
			entry = entry[length:]
		}
	}
}
