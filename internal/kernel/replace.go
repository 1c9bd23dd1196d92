package kernel

import (
	"os"
	"path/filepath"
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
