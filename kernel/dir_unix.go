//go:build unix

package kernel

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is a directory that is open. What is in it is reached through the descriptor, so it does not matter what becomes of
// the directory's name meanwhile. The methods take the name of one entry, and follow no link under that name.
type Dir struct {
	// Name is the path under which the directory was opened; "" for none.
	Name string
	fd   int
}

// Why an entry is not read.
var (
	errEntry   = errors.New("not the name of an entry")
	errRegular = errors.New("not a regular file")
	errLarge   = errors.New("too large")
)

// OpenDir opens a directory, close-on-exec. The last part of the name must not be a link: that is ELOOP or ENOTDIR.
func OpenDir(name string) (*Dir, error) {
	fd, err := Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	return newDir(fd, name, err)
}

// OpenUnmounted is OpenDir for a place where any user may mount a file system: the error is EXDEV if one is mounted there.
// Such a file system says of itself what its mounter likes, or nothing at all.
func OpenUnmounted(parent, entry string) (*Dir, error) {
	name := parent + "/" + entry
	fd, err := openUnmounted(parent, name)
	return newDir(fd, name, err)
}

func newDir(fd int, name string, err error) (*Dir, error) {
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", name, err)
	}
	return &Dir{name, fd}, nil
}

// Close closes the descriptor.
func (d *Dir) Close() { _ = unix.Close(d.fd) }

// Stat is the status of the directory itself.
func (d *Dir) Stat(st *unix.Stat_t) error { return unix.Fstat(d.fd, st) }

// single refuses what leads out of the directory, or further down.
func single(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return fmt.Errorf("%q: %w", name, errEntry)
	}
	return nil
}

// Open opens an entry, close-on-exec. The error is the bare errno; ELOOP for a link.
func (d *Dir) Open(name string, flags int, mode uint32) (int, error) {
	if err := single(name); err != nil {
		return -1, err
	}
	return openBelow(d.fd, name, flags, mode)
}

// Unnamed opens a new file without a name (O_TMPFILE) on the directory's file system.
func (d *Dir) Unnamed(mode uint32) (int, error) { return openUnnamed(d.fd, mode) }

// Look is the status of an entry; of a link, that of the link itself.
func (d *Dir) Look(name string, st *unix.Stat_t) error {
	if err := single(name); err != nil {
		return err
	}
	return unix.Fstatat(d.fd, name, st, unix.AT_SYMLINK_NOFOLLOW)
}

// Unlink removes an entry that is no directory. One that is gone is no error.
func (d *Dir) Unlink(name string) error {
	if err := single(name); err != nil {
		return err
	}
	if err := unix.Unlinkat(d.fd, name, 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove %s/%s: %w", d.Name, name, err)
	}
	return nil
}

// Rename gives an entry another name, and replaces what has that name.
func (d *Dir) Rename(from, to string) error {
	if err := errors.Join(single(from), single(to)); err != nil {
		return err
	}
	return unix.Renameat(d.fd, from, d.fd, to)
}

// Link gives an entry one more name.
func (d *Dir) Link(from, to string) error {
	if err := errors.Join(single(from), single(to)); err != nil {
		return err
	}
	return unix.Linkat(d.fd, from, d.fd, to, 0)
}

// ReadRegular reads an entry that must be a regular file of at most limit bytes. Linux checks it before it is opened,
// because merely opening a FIFO or a device has an effect.
func (d *Dir) ReadRegular(name string, limit int64) ([]byte, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	fd, size, err := openRegular(d.fd, name)
	if err == nil && size > limit {
		unix.Close(fd)
		err = fmt.Errorf("%w: more than %d bytes", errLarge, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", d.Name, name, err)
	}
	defer unix.Close(fd)
	// It may grow meanwhile.
	b := make([]byte, size)
	n, err := io.ReadFull(reader(fd), b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s/%s: %w", d.Name, name, err)
	}
	return b[:n], nil
}

// reader reads a descriptor.
type reader int

func (r reader) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), b)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n <= 0:
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}
