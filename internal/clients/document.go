package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Document is a configuration file that may be changed.
type Document struct {
	Place
	Text []byte
	stat fs.FileInfo
}

// Why a file is not changed.
var (
	ErrLink       = errors.New("it is a link; name the file that it leads to")
	errChanged    = errors.New("it was changed meanwhile; try again")
	errAttributes = errors.New("it has an access list or attributes, which a new file would not have")
	errMounted    = errors.New("it is mounted by itself: change it where it comes from")
)

// OpenDocument reads a file that its owner wants changed. It must be a regular file of the user, with one name only: the new
// file takes the place of the old one. The error does not name it.
func OpenDocument(p Place) (Document, error) {
	d := Document{Place: p}
	st, err := os.Lstat(p.Path)
	if err != nil {
		return d, withoutName(err)
	}
	if p.Format == foreign {
		return d, errByHand
	}
	if err := mayReplace(st); err != nil {
		return d, err
	}
	if err := ownParent(p.Path); err != nil {
		return d, err
	}
	// Opened for writing, though only read: a file that its owner has closed to writing is not replaced.
	f, err := os.OpenFile(p.Path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return d, withoutName(err)
	}
	defer f.Close()
	if d.stat, err = f.Stat(); err != nil {
		return d, err
	}
	if !os.SameFile(st, d.stat) {
		return d, errChanged
	}
	if extra := attributes(int(f.Fd())); extra != "" {
		return d, fmt.Errorf("%w (%s): change it by hand", errAttributes, extra)
	}
	d.Text, err = io.ReadAll(io.LimitReader(f, proc.MaxConfig+1))
	if len(d.Text) > proc.MaxConfig {
		return d, errTooLarge
	}
	return d, err
}

// attributes are the access list and the attributes of a file that its user, not the system, has given it. With another access list
// the same mode would let others in.
func attributes(fd int) string {
	names := make([]byte, 64<<10) // the most that a file can have (xattr(7))
	n, err := unix.Flistxattr(fd, names)
	if err != nil {
		return "" // a file system without any
	}
	given := slices.DeleteFunc(strings.Split(string(names[:n]), "\x00"), func(name string) bool {
		return name != "system.posix_acl_access" && !strings.HasPrefix(name, "user.")
	})
	return strings.Join(given, ", ")
}

// withoutName is the kernel's error without the name of the file.
func withoutName(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func mayReplace(st fs.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		return ErrLink
	case !st.Mode().IsRegular():
		return errKind
	case owner(st) != os.Geteuid():
		return fmt.Errorf("%w (uid %d): run this as that user", errNotOwn, owner(st))
	case ok && sys.Nlink > 1:
		return errors.New("it has several names (hard links), of which only one would be changed: change it by hand, or make it one file")
	}
	return nil
}

// Plan is what is to become of the file.
func (d Document) Plan(o Options, want func(name string) bool) (p Plan, err error) {
	if !o.Unwrap {
		if o.lists, err = listsBelow("", d.Place); err != nil {
			return p, err
		}
	}
	return rewrite(d.Text, d.Format, o, want)
}

// ownParent refuses a directory in which another user could put a file of theirs in the place of ours while we write.
func ownParent(name string) error {
	st, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return err
	}
	if uid := owner(st); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("its directory belongs to another user (uid %d): run this as that user", uid)
	}
	if st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
		return errors.New("its directory can be written by every user: chmod o-w it")
	}
	return nil
}

// Replace puts new text in the place of the file's, in one step: a reader finds the old or the new text whole. Mode and
// owner stay. A file that was changed since it was opened stays as it is.
func (d Document) Replace(text []byte) error {
	err := proc.Replace(d.Path, text, func(f *os.File) error {
		if err := d.likeThis(f); err != nil {
			return err
		}
		return d.unchanged()
	})
	if errors.Is(err, unix.EBUSY) { // as a file that a container's user has mounted
		return errMounted
	}
	return err
}

// likeThis gives a new file the document's owner and mode, and puts it on the disk.
func (d Document) likeThis(f *os.File) error {
	if sys, ok := d.stat.Sys().(*syscall.Stat_t); ok {
		// This fails where the user is not in the file's group. With another group the same mode would give too much away.
		if err := f.Chown(int(sys.Uid), int(sys.Gid)); err != nil {
			return err
		}
	}
	return errors.Join(f.Chmod(d.stat.Mode().Perm()), f.Sync())
}

// unchanged checks once more, right before the new file takes the name.
func (d Document) unchanged() error {
	now, err := OpenDocument(d.Place)
	if err != nil {
		return err
	}
	if !os.SameFile(now.stat, d.stat) || !bytes.Equal(now.Text, d.Text) {
		return errChanged
	}
	return nil
}
