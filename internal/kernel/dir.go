package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openBelow opens a name below a directory. It follows no link, and never leaves the directory. Kernels before 5.6 have
// no openat2, and some filters of system calls refuse it: then O_NOFOLLOW does the same for the name of one entry.
func openBelow(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Mode: uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOSYS, unix.EPERM:
			return unix.Openat(dir, name, int(how.Flags), mode)
		}
		return fd, err
	}
}

// openUnmounted opens the directory behind a path, unless something is mounted there: EXDEV. What is mounted is asked
// nothing, because it may never answer. That is why there are two steps.
func openUnmounted(parent, name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW
	at, err := Open(name, flags)
	if err != nil {
		return -1, err
	}
	fd := -1
	top, err := Open(parent, flags&^unix.O_NOFOLLOW)
	if err == nil {
		if err = sameMount(top, at); err == nil {
			fd, err = openAt(at, ".", unix.O_RDONLY|unix.O_DIRECTORY)
		}
		unix.Close(top)
	}
	unix.Close(at)
	return fd, err
}

// sameMount is EXDEV for open files on different mounts. Another error says that this cannot be known.
func sameMount(a, b int) error {
	one, err := mountOf(a)
	other, otherErr := mountOf(b)
	if err = errors.Join(err, otherErr); err == nil && one != other {
		err = unix.EXDEV
	}
	return err
}

// mountOf says on which mount an open file is (proc_pid_fdinfo(5)). Without /proc, or where that file is closed to a
// process that may not be dumped, all seem to be on one.
func mountOf(fd int) (string, error) {
	info, err := Read("/proc/self/fdinfo/"+strconv.Itoa(fd), nil)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) {
		return "", err
	}
	_, mount, _ := strings.Cut(string(info), "mnt_id:")
	mount, _, _ = strings.Cut(mount, "\n")
	return mount, nil
}

func openUnnamed(dir int, mode uint32) (int, error) {
	return unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
}

// openRegular opens a regular file for reading, by way of an O_PATH descriptor. Without /proc the file is opened once
// more by its name, and the two are compared.
func openRegular(dir int, name string) (fd int, size int64, err error) {
	at, err := openBelow(dir, name, unix.O_PATH, 0)
	if err != nil {
		return -1, 0, err
	}
	defer unix.Close(at)
	var st, opened unix.Stat_t
	if err = unix.Fstat(at, &st); err != nil {
		return -1, 0, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return -1, 0, unix.ELOOP
	default:
		return -1, 0, errRegular
	}
	fd, err = Open(selfFD(at), unix.O_RDONLY|unix.O_NONBLOCK)
	if !errors.Is(err, unix.ENOENT) {
		return fd, st.Size, err
	}
	if fd, err = openBelow(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return -1, 0, err
	}
	if err = unix.Fstat(fd, &opened); err == nil && (opened.Ino != st.Ino || opened.Dev != st.Dev) {
		err = errRegular
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Size, nil
}

// OpenPath opens a directory with O_PATH, close-on-exec, by a path that contains no link.
func OpenPath(name string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	}
	if !path.IsAbs(name) {
		return -1, fmt.Errorf("open %q: not an absolute path: %w", name, unix.EINVAL)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
	if err != unix.ENOSYS && err != unix.EPERM {
		return fd, err
	}
	return openEach(name)
}

// openEach is OpenPath where the kernel has no openat2: part by part.
func openEach(name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW
	dir, err := Open("/", flags)
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if err != nil {
			return -1, err
		}
		if part == "" {
			continue
		}
		next, nerr := openAt(dir, part, flags)
		unix.Close(dir)
		dir, err = next, nerr
	}
	return dir, err
}

// Names lists the entries, without "." and "..". The order is the kernel's.
func (d *Dir) Names() ([]string, error) {
	var out []string
	err := entries(d.fd, func(name string, _ byte) { out = append(out, name) })
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.Name, err)
	}
	return out, nil
}

// LinkUnnamed gives a file that was opened by Unnamed its first name. The error is EEXIST when the name is taken, ENOENT
// without /proc.
func (d *Dir) LinkUnnamed(fd int, name string) error {
	if err := single(name); err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, selfFD(fd), d.fd, name, unix.AT_SYMLINK_FOLLOW)
}

// Connect connects a unix socket to the one in the directory, and to no other. It connects by the path of a descriptor,
// however long the directory's own path is.
func (d *Dir) Connect(socket int, name string) error {
	if err := single(name); err != nil {
		return err
	}
	at, err := openBelow(d.fd, name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.Connect(socket, &unix.SockaddrUnix{Name: selfFD(at)})
}

// selfFD is the path of an open file.
func selfFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Modified is when a file was written to.
func Modified(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }

// Bind gives a unix socket its name in the directory, however long the directory's own path is. It fails if the name is
// taken.
func (d *Dir) Bind(socket int, name string) error {
	if err := single(name); err != nil {
		return err
	}
	return unix.Bind(socket, &unix.SockaddrUnix{Name: selfFD(d.fd) + "/" + name})
}

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

// HasDirOf reports whether an entry is a directory that belongs to a user. What a user has mounted there is not asked, because it
// may not answer. Before Linux 4.11 that cannot be told, and every entry counts.
func (d *Dir) HasDirOf(uid int, name string) bool {
	var st unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if single(name) != nil {
		return false
	}
	err := unix.Statx(d.fd, name, flags, unix.STATX_TYPE|unix.STATX_UID, &st)
	return err == unix.ENOSYS || err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid
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
	return d.read(name, limit, false)
}

// ReadEnd is ReadRegular for a file of lines that may have grown: of a larger one it reads whole lines at its end.
func (d *Dir) ReadEnd(name string, limit int64) ([]byte, error) { return d.read(name, limit, true) }

func (d *Dir) read(name string, limit int64, end bool) ([]byte, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	fd, size, err := openRegular(d.fd, name)
	cut := size > limit
	switch {
	case err != nil || !cut:
	case end:
		_, err = unix.Seek(fd, size-limit, io.SeekStart)
		size = limit
	default:
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
	if b = b[:n]; cut {
		_, b, _ = bytes.Cut(b, []byte{'\n'})
	}
	return b, nil
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
