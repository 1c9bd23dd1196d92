package clients

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
	"mcp-tether/internal/proc"
)

// ownDir reports whether a name is that of a directory of the calling user. The only error is ErrLate.
func ownDir(name string) (bool, error) {
	var (
		st  unix.Stat_t
		err error
	)
	if !kernel.InTime(fileTimeout, func() { err = unix.Stat(name, &st) }) {
		return false, fmt.Errorf("stat home %s: %w", name, ErrLate)
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Getuid(), nil
}

// readRegular reads a regular file. It checks the file before it opens it, because opening a FIFO or a device already
// does something. It follows links, because people keep their settings in other places. Root reads nothing but what
// root has written.
func (r *reader) readRegular(name string) ([]byte, error) {
	var (
		at   int
		st   unix.Stat_t
		text []byte
		err  error
	)
	if !r.inTime(func() { at, err = openPath(name, &st) }) {
		return nil, ErrLate
	}
	if err == nil {
		if err = r.accept(&st); err != nil {
			unix.Close(at)
		}
	}
	if err != nil {
		return nil, err
	}
	if !r.inTime(func() { text, err = readOpened(at, name, st.Size) }) {
		return nil, ErrLate
	}
	return text, err
}

// openPath opens a file with O_PATH, which does nothing to it.
func openPath(name string, st *unix.Stat_t) (int, error) {
	at, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Fstat(at, st); err != nil {
		unix.Close(at)
		return -1, err
	}
	return at, nil
}

// readOpened reads what openPath has opened, and closes it.
func readOpened(at int, name string, size int64) ([]byte, error) {
	defer unix.Close(at)
	fd, err := proc.Reopen(at, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	// It may grow meanwhile.
	return io.ReadAll(io.LimitReader(f, size))
}

// inTime runs read within the time limit. Each read that takes too long leaves less time for the next: many files may
// be on one file system that does not answer.
func (r *reader) inTime(read func()) bool {
	if kernel.InTime(r.timeout, read) {
		return true
	}
	r.timeout = max(r.timeout/2, minFileTimeout)
	return false
}

// accept judges a file before it is opened, and counts it.
func (r *reader) accept(st *unix.Stat_t) error {
	id := fileID{st.Dev, st.Ino}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errKind
	case os.Getuid() == 0 && st.Uid != 0 && !r.named:
		return errNotOwn
	case r.seen[id]:
		return errSeen
	case st.Size > min(maxFile, r.left):
		return errTooLarge
	}
	r.seen[id] = true
	r.left -= st.Size
	return nil
}
