//go:build !linux

package clients

import (
	"io"
	"os"
)

// ownDir reports whether a name is that of a directory.
func ownDir(name string) (bool, error) {
	st, err := os.Stat(name)
	return err == nil && st.IsDir(), nil
}

// readRegular reads a regular file.
func (r *reader) readRegular(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, errKind
	case st.Size() > min(maxFile, r.left):
		return nil, errTooLarge
	}
	r.left -= st.Size()
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, st.Size()))
}
