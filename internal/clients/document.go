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

	"mcp-tether/internal/proc"
)

// backupSuffix is added to a file's name for the text before the first wrap.
const backupSuffix = ".mcp-tether-backup"

// backupMode is that of no file of the user's own: by it a backup is known.
const backupMode = 0o400

// Document is a configuration file that may be changed.
type Document struct {
	Place
	Text []byte
	stat fs.FileInfo
}

// Why a file is not changed.
var (
	ErrLink    = errors.New("it is a link; name the file that it leads to")
	ErrChanged = errors.New("it was changed meanwhile; try again")
)

// OpenDocument reads a file that its owner wants changed. It must be a
// regular file of the user, with one name only: the new file takes the place of the old one. The error does not name
// it.
func OpenDocument(p Place) (Document, error) {
	d := Document{Place: p}
	st, err := os.Lstat(p.Path)
	if err != nil {
		return d, withoutName(err)
	}
	if p.Format == foreign {
		return d, ErrByHand
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
		return d, ErrChanged
	}
	d.Text, err = io.ReadAll(io.LimitReader(f, proc.MaxConfig+1))
	if len(d.Text) > proc.MaxConfig {
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
		if o.Lists, err = ListsFor(d.Place); err != nil {
			return p, err
		}
	}
	return Rewrite(d.Text, d.Format, o, want)
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
// owner stay. With keep, the old text is kept in backup, unless a file of the user's own has that name; but not in a git work tree,
// where it might be committed. Our backup goes once the new text equals it. A file that was changed since it was opened stays as it is.
func (d Document) Replace(text []byte, keep bool) (backup string, err error) {
	name := d.Path + backupSuffix
	if keep && !inGit(d.Path) {
		if backup, err = d.keep(name); err != nil {
			return "", fmt.Errorf("keep the text before: %w", err)
		}
	}
	err = proc.Replace(d.Path, text, func(f *os.File) error {
		if err := d.likeThis(f, d.stat.Mode().Perm()); err != nil {
			return err
		}
		return d.unchanged()
	})
	if err != nil && backup != "" {
		_ = os.Remove(backup) // It may hold secrets.
	}
	if err != nil {
		return "", err
	}
	if kept, st, err := readFile(name, true); err == nil && isBackup(st) {
		if !bytes.Equal(kept, text) {
			return name, nil
		}
		return "", os.Remove(name)
	}
	return backup, nil
}

// keep writes the text into a backup. An older one of ours goes first; with a file of the user's own there is none.
func (d Document) keep(name string) (string, error) {
	if st, err := os.Lstat(name); err == nil && isBackup(st) {
		if err := os.Remove(name); err != nil {
			return "", err
		}
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, backupMode)
	if errors.Is(err, fs.ErrExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(d.Text)
	if err = errors.Join(err, d.likeThis(f, backupMode), f.Close()); err != nil {
		_ = os.Remove(name)
		return "", err
	}
	return name, nil
}

// isBackup reports whether a file is a backup that we have made.
func isBackup(st fs.FileInfo) bool {
	return st.Mode() == backupMode && owner(st) == os.Geteuid()
}

// HasBackup reports whether a text before is kept.
func (d Document) HasBackup() bool {
	st, err := os.Lstat(d.Path + backupSuffix)
	return err == nil && isBackup(st)
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

// likeThis gives a new file the document's owner, and puts it on the disk.
func (d Document) likeThis(f *os.File, mode fs.FileMode) error {
	if sys, ok := d.stat.Sys().(*syscall.Stat_t); ok {
		// This fails where the user is not in the file's group. With another group the same mode would give too much away.
		if err := f.Chown(int(sys.Uid), int(sys.Gid)); err != nil {
			return err
		}
	}
	return errors.Join(f.Chmod(mode), f.Sync())
}

// unchanged checks once more, right before the new file takes the name.
func (d Document) unchanged() error {
	now, err := OpenDocument(d.Place)
	if err != nil {
		return err
	}
	if !os.SameFile(now.stat, d.stat) || !bytes.Equal(now.Text, d.Text) {
		return ErrChanged
	}
	return nil
}
