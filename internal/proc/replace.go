package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

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
