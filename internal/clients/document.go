package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"mcp-tether/internal/kernel"
)

// backupSuffix is added to a file's name for the text before the first wrap.
const backupSuffix = ".mcp-tether-backup"

// Document is a configuration file that may be changed.
type Document struct {
	Path   string
	Format Format
	Text   []byte
	stat   fs.FileInfo
}

// Why a file is not changed.
var (
	ErrLink    = errors.New("it is a link; name the file that it leads to")
	ErrChanged = errors.New("it was changed meanwhile; try again")
	ErrByHand  = errors.New("it is YAML or XML, which is not rewritten")
)

// OpenDocument reads a file that its owner wants changed. format is "" to recognise it by the name. It must be a
// regular file of the user, with one name only: the new file takes the place of the old one. The error does not name
// it.
func OpenDocument(name string, format Format) (Document, error) {
	d := Document{Path: name, Format: format}
	if format == "" {
		d.Format = formatOf(name)
	}
	st, err := os.Lstat(name)
	if err != nil {
		return d, withoutName(err)
	}
	if d.Format == foreign {
		return d, ErrByHand
	}
	if err := mayReplace(st); err != nil {
		return d, err
	}
	if err := ownParent(name); err != nil {
		return d, err
	}
	// Opened for writing, though only read: a file that its owner has closed to writing is not replaced.
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return d, withoutName(err)
	}
	defer f.Close()
	if d.stat, err = f.Stat(); err != nil {
		return d, err
	}
	if !os.SameFile(st, d.stat) {
		return d, ErrChanged
	}
	d.Text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(d.Text) > maxFile {
		return d, errTooLarge
	}
	return d, err
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
	case ok && int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("%w (uid %d): run this as that user", errNotOwn, sys.Uid)
	case ok && sys.Nlink > 1:
		return errors.New("it has several names (hard links), of which only one would be changed")
	}
	return nil
}

// ownParent refuses a directory in which another user could put a file of theirs in the place of ours while we write.
func ownParent(name string) error {
	st, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("its directory belongs to another user (uid %d): run this as that user", sys.Uid)
	}
	if st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
		return errors.New("its directory can be written by every user")
	}
	return nil
}

// Replace puts new text in the place of the file's, in one step: a reader finds the old or the new text whole. Mode and
// owner stay. With keep, the old text is kept in backup, but not in a git work tree, where it might be committed. A backup
// that the new text equals goes. A file that was changed since it was opened stays as it is.
func (d Document) Replace(text []byte, keep bool) (backup string, err error) {
	backup = d.Path + backupSuffix
	if keep && !inGit(d.Path) {
		if err := d.put(backup, d.Text, func() error { return nil }); err != nil {
			return "", fmt.Errorf("keep the text before: %w", err)
		}
	}
	if err := d.put(d.Path, text, d.unchanged); err != nil {
		return "", err
	}
	kept, err := OpenDocument(backup, d.Format)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err == nil && bytes.Equal(kept.Text, text):
		return "", os.Remove(backup)
	}
	return backup, nil
}

// HasBackup reports whether a text before is kept.
func (d Document) HasBackup() bool {
	_, err := os.Lstat(d.Path + backupSuffix)
	return err == nil
}

// inGit reports whether a file is in a git work tree.
func inGit(name string) bool {
	dir, err := filepath.Abs(name)
	for err == nil && dir != "/" {
		dir = filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
	}
	return false
}

// put writes a file with the document's mode and owner. The file gets its name only if ready returns no error.
func (d Document) put(name string, text []byte, ready func() error) error {
	return kernel.Replace(name, text, func(f *os.File) error {
		if sys, ok := d.stat.Sys().(*syscall.Stat_t); ok {
			// This fails where the user is not in the file's group. With another group the same mode would give too much away.
			if err := f.Chown(int(sys.Uid), int(sys.Gid)); err != nil {
				return err
			}
		}
		if err := f.Chmod(d.stat.Mode().Perm()); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		return ready()
	})
}

// unchanged checks once more, right before the new file takes the name.
func (d Document) unchanged() error {
	now, err := OpenDocument(d.Path, d.Format)
	if err != nil {
		return err
	}
	if !os.SameFile(now.stat, d.stat) || !bytes.Equal(now.Text, d.Text) {
		return ErrChanged
	}
	return nil
}
