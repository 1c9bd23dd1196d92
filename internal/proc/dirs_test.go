package proc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDirsAt(t *testing.T) {
	top := t.TempDir()
	var want []string
	for i := range 300 {
		name := string(rune('a'+i%26)) + filepath.Base(t.Name()) + string(rune('A'+i/26))
		if err := os.Mkdir(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(top, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	got, err := DirsAt(fd)
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d directories, %v; want %d", len(got), err, len(want))
	}
}
