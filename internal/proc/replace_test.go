package proc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	for _, text := range []string{"old", "new"} {
		if err := Replace(name, []byte(text), func(f *os.File) error { return f.Chmod(0o640) }); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(name)
		if err != nil || st.Mode().Perm() != 0o640 {
			t.Fatal(st, err)
		}
		if b, err := os.ReadFile(name); string(b) != text {
			t.Errorf("%q, %v", b, err)
		}
	}
	refused := errors.New("refused")
	if err := Replace(name, []byte("third"), func(*os.File) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	if err := Replace(filepath.Join(dir, "none", "file"), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := Replace(dir, nil, func(*os.File) error { return nil }); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Error("files beside it are left:", left, err)
	}
	if b, err := os.ReadFile(name); string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
}
