package proc

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func openedDir(t *testing.T, name string) *Dir {
	t.Helper()
	d, err := OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Nothing but a regular file is opened for reading: a FIFO would wait, a device would do something.
func TestReadRegular(t *testing.T) {
	top := t.TempDir()
	precious := filepath.Join(t.TempDir(), "precious")
	must(t, os.WriteFile(precious, []byte("precious"), 0o600), os.WriteFile(top+"/file", []byte("text"), 0o600),
		os.Symlink(precious, top+"/link"), unix.Mkfifo(top+"/fifo", 0o600), os.Mkdir(top+"/dir", 0o700))
	d := openedDir(t, top)
	if b, err := d.ReadRegular("file", 4); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for name, want := range map[string]error{
		"link": unix.ELOOP, "fifo": errRegular, "dir": errRegular, "none": unix.ENOENT,
		"../" + filepath.Base(top) + "/file": unix.ENOENT, "dir/..": unix.ENOENT, "..": unix.ENOENT, ".": unix.ENOENT, "": unix.ENOENT, precious: unix.ENOENT,
	} {
		if b, err := d.ReadRegular(name, 100); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v; want %v", name, b, err, want)
		}
	}
	if b, err := d.ReadRegular("file", 3); !errors.Is(err, errLarge) {
		t.Errorf("%q, %v", b, err)
	}
}

// An open directory stays the same when its name leads elsewhere.
func TestDirSwapped(t *testing.T) {
	base := t.TempDir()
	ours, moved, precious := base+"/ours", base+"/moved", base+"/precious"
	for _, dir := range []string{ours, precious} {
		must(t, os.Mkdir(dir, 0o700), os.WriteFile(dir+"/a", []byte(dir), 0o600))
	}
	d := openedDir(t, ours)
	must(t, os.Rename(ours, moved), os.Symlink(precious, ours))
	if b, err := d.ReadRegular("a", 1000); string(b) != ours || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	fd, err := d.Open("new", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err, unix.Close(fd))
	must(t, d.Link("new", "linked"), d.Rename("a", "b"), d.Unlink("new"))
	left, err := d.Names()
	slices.Sort(left)
	if !slices.Equal(left, []string{"b", "linked"}) || err != nil {
		t.Errorf("ours has %v, %v", left, err)
	}
	if theirs, _ := os.ReadDir(precious); len(theirs) != 1 || theirs[0].Name() != "a" {
		t.Errorf("the other one has %v", theirs)
	}
	if _, err := OpenDir(ours); err == nil {
		t.Error("a link was opened")
	}
}

// The path of a socket may be too long for an address; Connect reaches the socket in the directory all the same.
func TestConnect(t *testing.T) {
	top := t.TempDir()
	l, err := net.Listen("unix", top+"/a")
	must(t, err)
	defer l.Close()
	d := openedDir(t, top)
	for name, want := range map[string]error{"a": nil, "none": unix.ENOENT} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		if err := d.Connect(fd, name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		must(t, unix.Close(fd))
	}
}

// A path with a link in it is refused.
func TestOpenPath(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/a/b", 0o700), os.Symlink("a", base+"/link"), os.WriteFile(base+"/file", nil, 0o600))
	for name, good := range map[string]bool{
		"/a/b": true, "/a//b/": true, "": true, "/link/b": false, "/link": false, "/file": false, "/none": false,
	} {
		fd, err := OpenPath(base + name)
		if (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			must(t, unix.Close(fd))
		}
	}
	if _, err := OpenPath("a"); err == nil {
		t.Error("a relative path was opened")
	}
}

func TestIsDirOf(t *testing.T) {
	top := t.TempDir()
	must(t, os.Mkdir(top+"/dir", 0o700), os.WriteFile(top+"/file", nil, 0o600), os.Symlink("dir", top+"/link"))
	for entry, want := range map[string]bool{"dir": true, "file": false, "link": false} {
		st, err := Look(top + "/" + entry)
		if got := IsDirOf(os.Getuid(), &st); got != want || err != nil || IsDirOf(os.Getuid()+1, &st) {
			t.Errorf("%s: %t, %v", entry, got, err)
		}
	}
	if _, err := Look(top + "/none"); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
}

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
