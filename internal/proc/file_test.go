package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Both ways of reading agree with package os, whatever the buffer holds beforehand.
func TestReadAgreesWithOS(t *testing.T) {
	large := t.TempDir() + "/large"
	if err := os.WriteFile(large, bytes.Repeat([]byte("0123456789"), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{large, "/proc/self/cmdline", "/proc/self/environ", "/proc/self/cgroup", "/proc/self/mountinfo"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, buf := range [][]byte{nil, make([]byte, 1), make([]byte, 7, 4096), make([]byte, len(want))} {
			if got, err := Read(name, buf); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s with room for %d: %d bytes of %d, %v", name, cap(buf), len(got), len(want), err)
			}
		}
	}
	want, _ := os.ReadFile("/proc/self/environ")
	for _, size := range []int{0, 1, len(want) - 1, len(want), len(want) + 1, 1 << 20} {
		if got, err := readEntry("/proc/self/environ", make([]byte, 0, size)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("entry with room for %d: %d bytes of %d, %v", size, len(got), len(want), err)
		}
	}
}

// A list of the kernel comes a page at a time, however large the buffer is: such a read would cut it, Read does not.
func TestReadGoesOnAfterAShortRead(t *testing.T) {
	const name = "/proc/self/smaps"
	whole, err := Read(name, make([]byte, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	cut, err := readEntry(name, make([]byte, 0, 1<<20))
	if err != nil || len(cut) >= len(whole) {
		t.Errorf("%d bytes in one read and %d in all, %v: is the difference between the two gone?", len(cut), len(whole), err)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	name := t.TempDir() + "/none"
	_, read := Read(name, nil)
	_, entry := readEntry(name, nil)
	for _, err := range []error{read, entry, WriteAt(unix.AT_FDCWD, name, "1")} {
		if !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v; want ENOENT and %s", err, name)
		}
	}
	if _, err := Read(t.TempDir(), nil); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a directory was read: %v", err)
	}
}

// Control files take their value in one write.
func TestWriteAt(t *testing.T) {
	name := t.TempDir() + "/file"
	if err := os.WriteFile(name, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteAt(unix.AT_FDCWD, name, "1"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "1efore" {
		t.Errorf("file holds %q, %v", b, err)
	}
	if err := WriteAt(unix.AT_FDCWD, "/dev/full", "1"); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("write to a full device: %v", err)
	}
}

// readEntry is a read whose first short part is the last.
func readEntry(name string, buf []byte) ([]byte, error) { return read(unix.AT_FDCWD, name, buf, true) }

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
