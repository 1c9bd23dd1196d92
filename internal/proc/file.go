package proc

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Open opens a file or directory close-on-exec and tries again when a signal interrupts it. The error is the bare errno.
func Open(name string, flags int) (int, error) { return openAt(unix.AT_FDCWD, name, flags, 0) }

// openAt is Open in a directory that is open. A file that is made gets this mode.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Read reads a file up to its end into buf[:0], which grows as needed. A list may come in several reads, each of which
// leaves room (seq_file, at most a page at a time). So only an empty read is the last.
func Read(name string, buf []byte) ([]byte, error) { return read(unix.AT_FDCWD, name, buf, false) }

// ReadAt is Read for a file in a directory that is open.
func ReadAt(dir int, name string, buf []byte) ([]byte, error) { return read(dir, name, buf, false) }

// firstRead is the size of the buffer if the caller brings none, in bytes; most files fit.
const firstRead = 4096

// read reads a file. whole says that the kernel gives it in one read if it fits, as stat, cmdline and environ of a process: then
// the first read that leaves room is the last. That saves one system call in two, which counts for ten thousand processes.
func read(dir int, name string, buf []byte, whole bool) ([]byte, error) {
	fd, err := openAt(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	if cap(buf) == 0 {
		buf = make([]byte, 0, firstRead)
	}
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		room := cap(buf) - len(buf)
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		buf = buf[:len(buf)+max(n, 0)]
		if n <= 0 || whole && n < room {
			return buf, nil
		}
	}
}

// WriteAt writes data in one call, as control files want it, to a file in a directory that is open; the error names both.
func WriteAt(dir int, name, data string) error {
	fd, err := openAt(dir, name, unix.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open %s to write %q: %w", name, data, err)
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Write(fd, []byte(data))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("write %q to %s: %w", data, name, err)
		}
		return nil
	}
}

// Replace puts a file with the text in the place of the named one, in one step. A reader finds the old or the new text
// whole. The new file is written beside it, under a name that cannot be foreseen, so no other user can have prepared
// it. It is readable by its owner alone until finish has given it mode and owner. An error of finish leaves all as it
// was.
func Replace(name string, text []byte, finish func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".")
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = finish(f)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
