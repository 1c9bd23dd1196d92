package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is a directory that is open. What is in it is reached through the descriptor, so it does not matter what becomes of
// the directory's name meanwhile. The methods take the name of one entry, and follow no link. A file is a
// plain descriptor: package os would start the runtime's poller, which throws in a process that can open nothing any more.
type Dir struct {
	// Name is the path under which the directory was opened.
	Name string
	fd   int
}

// Why an entry is not read.
var (
	errRegular = errors.New("not a regular file")
	errLarge   = errors.New("too large")
)

// Look is the status of what a path names; of a link, that of the link itself. Type, mode, owner, and file system are asked for. A
// file system that is mounted there is not asked: it may never answer.
func Look(name string) (st unix.Statx_t, err error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	err = unix.Statx(unix.AT_FDCWD, name, flags, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_UID, &st)
	return st, err
}

// IsDirOf reports whether a status is that of a directory of the user.
func IsDirOf(uid int, st *unix.Statx_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid
}

// OpenDir opens a directory, close-on-exec. The last part of the name must not be a link: that is ELOOP or ENOTDIR.
func OpenDir(name string) (*Dir, error) {
	fd, err := Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", name, err)
	}
	return &Dir{name, fd}, nil
}

// FD is the descriptor.
func (d *Dir) FD() int { return d.fd }

// Close closes the descriptor.
func (d *Dir) Close() { _ = unix.Close(d.fd) }

// Stat is the status of the directory itself.
func (d *Dir) Stat(st *unix.Stat_t) error { return unix.Fstat(d.fd, st) }

// entry is a name that leads neither out of the directory nor further down. Any other is "", which the kernel never finds.
func entry(name string) string {
	if name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return ""
	}
	return name
}

// Open opens an entry, close-on-exec. The error is the bare errno; ELOOP for a link.
func (d *Dir) Open(name string, flags int, mode uint32) (int, error) {
	return openAt(d.fd, entry(name), flags|unix.O_NOFOLLOW, mode)
}

// Look is the status of an entry; of a link, that of the link itself.
func (d *Dir) Look(name string, st *unix.Stat_t) error {
	return unix.Fstatat(d.fd, entry(name), st, unix.AT_SYMLINK_NOFOLLOW)
}

// Names lists the entries, without "." and "..". The order is the kernel's.
func (d *Dir) Names() ([]string, error) {
	f, err := reopen(d.fd)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.Name, err)
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// DirsAt lists the directories in a directory that is open, with O_PATH or not, on a file system that tells the types.
func DirsAt(dir int) (names []string, err error) {
	f, err := reopen(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(-1)
	for _, e := range all {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// reopen opens a directory once more, from its start. A descriptor that blocks is none for the poller.
func reopen(dir int) (*os.File, error) {
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	return os.NewFile(uintptr(fd), "."), err
}

// Unlink removes an entry that is no directory. One that is gone is no error.
func (d *Dir) Unlink(name string) error {
	if err := unix.Unlinkat(d.fd, entry(name), 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove %s/%s: %w", d.Name, name, err)
	}
	return nil
}

// Rename gives an entry another name, and replaces what has that name.
func (d *Dir) Rename(from, to string) error {
	return unix.Renameat(d.fd, entry(from), d.fd, entry(to))
}

// Link gives an entry one more name.
func (d *Dir) Link(from, to string) error {
	return unix.Linkat(d.fd, entry(from), d.fd, entry(to), 0)
}

// LinkTo replaces an entry by a symbolic link, in one step. The link has the name next until then.
func (d *Dir) LinkTo(target, name, next string) error {
	if err := d.Unlink(next); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, d.fd, entry(next)); err != nil {
		return fmt.Errorf("link %s/%s to %s: %w", d.Name, name, target, err)
	}
	return d.Rename(next, name)
}

// Replace puts a file with the text in the place of an entry, in one step. A reader finds the old or the new text whole. The
// new file has the name next until then. When that fails, the old one stays.
func (d *Dir) Replace(name, next string, text []byte) error {
	fd, err := d.Open(next, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600)
	if err == nil {
		err = errors.Join(writeAll(fd, text), unix.Close(fd))
	}
	if err == nil {
		err = d.Rename(next, name)
	}
	if err != nil {
		_ = d.Unlink(next)
		return fmt.Errorf("replace %s/%s: %w", d.Name, name, err)
	}
	return nil
}

func writeAll(fd int, text []byte) error {
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil && err != unix.EINTR {
			return err
		}
		text = text[max(n, 0):]
	}
	return nil
}

// ReadRegular reads an entry that must be a regular file of at most limit bytes, and our user's: another one may have put it
// there while the directory was open to all.
func (d *Dir) ReadRegular(name string, limit int64) ([]byte, error) {
	return d.read(name, limit, false)
}

// ReadEnd is ReadRegular for a file of lines that may have grown: of a larger one it reads whole lines at its end.
func (d *Dir) ReadEnd(name string, limit int64) ([]byte, error) { return d.read(name, limit, true) }

func (d *Dir) read(name string, limit int64, end bool) ([]byte, error) {
	fd, err := d.Open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", d.Name, name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	cut := st.Size > limit
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errRegular
	case int(st.Uid) != unix.Geteuid():
		err = fmt.Errorf("it belongs to uid %d: remove it", st.Uid)
	case cut && !end:
		err = fmt.Errorf("%w: more than %d bytes", errLarge, limit)
	case cut:
		st.Size = limit
		_, err = unix.Seek(fd, -limit, io.SeekEnd)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", d.Name, name, err)
	}
	b, err := readUpTo(fd, make([]byte, st.Size)) // It may grow meanwhile.
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", d.Name, name, err)
	}
	if cut {
		_, b, _ = bytes.Cut(b, []byte{'\n'})
	}
	return b, nil
}

// readUpTo fills b, or what a shorter file has.
func readUpTo(fd int, b []byte) ([]byte, error) {
	for n := 0; ; {
		got, err := unix.Read(fd, b[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case got == 0:
			return b[:n], nil
		default:
			n += got
		}
	}
}

// Connect connects a unix socket to the one in the directory, however long the directory's own path is.
func (d *Dir) Connect(socket int, name string) error {
	return unix.Connect(socket, d.socket(name))
}

// Bind gives a unix socket its name in the directory, however long the directory's own path is. It fails if the name is
// taken.
func (d *Dir) Bind(socket int, name string) error {
	return unix.Bind(socket, d.socket(name))
}

func (d *Dir) socket(name string) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: selfFD(d.fd) + "/" + entry(name)}
}

// selfFD is the path of an open file.
func selfFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Modified is when a file was written to.
func Modified(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }

// OpenPath opens a directory with O_PATH, close-on-exec, by an absolute path that contains no link: ELOOP.
func OpenPath(name string) (int, error) {
	fd, err := Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	is, err := os.Readlink(selfFD(fd))
	if err == nil && is != path.Clean(name) {
		err = unix.ELOOP
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
