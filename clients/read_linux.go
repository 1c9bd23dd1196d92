package clients

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"mcp-tether/proc"
)

// ownDir reports whether a name is that of a directory of the user who asks.
func ownDir(name string) bool {
	var st unix.Stat_t
	return unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Getuid()
}

// readRegular reads a regular file. It is looked at before it is opened: to open a FIFO or a device does something already.
// Links are followed, as people keep their settings in other places. Root reads nothing but what root has written.
func (r *reader) readRegular(name string) ([]byte, error) {
	at, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, err
	}
	if err := r.accept(&st); err != nil {
		return nil, err
	}
	fd, err := proc.Reopen(at, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	// It may grow meanwhile.
	return io.ReadAll(io.LimitReader(f, st.Size))
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
