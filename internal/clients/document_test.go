package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

func written(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReplaceKeepsModeAndText(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o664} {
		name := written(t, "old", mode)
		d, err := OpenDocument(Place{Path: name, Format: JSON})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Replace([]byte("new")); err != nil || read(t, name) != "new" {
			t.Errorf("%v: %q", err, read(t, name))
		}
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != mode {
			t.Errorf("it has mode %v, %v", st.Mode(), err)
		}
		onlyThese(t, filepath.Dir(name), 1)
	}
}

// onlyThese checks that no temporary file is left.
func onlyThese(t *testing.T, dir string, n int) {
	t.Helper()
	if all, err := os.ReadDir(dir); err != nil || len(all) != n {
		t.Errorf("%v, %v", all, err)
	}
}

func TestReplaceOfAChangedFile(t *testing.T) {
	for what, change := range map[string]func(name string) error{
		"other text":   func(name string) error { return os.WriteFile(name, []byte("theirs"), 0o600) },
		"another file": func(name string) error { _ = os.Remove(name); return os.WriteFile(name, []byte("old"), 0o600) },
		"a link": func(name string) error {
			if err := os.Rename(name, name+".moved"); err != nil {
				return err
			}
			return os.Symlink(name+".moved", name)
		},
	} {
		name := written(t, "old", 0o600)
		d, err := OpenDocument(Place{Path: name, Format: JSON})
		if err != nil {
			t.Fatal(err)
		}
		// A second file makes sure that the first one's number is not given again.
		if err := os.WriteFile(name+".other", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		keep, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(name); err != nil {
			t.Fatal(err)
		}
		now := read(t, name)
		if err := d.Replace([]byte("new")); !errors.Is(err, errChanged) && !errors.Is(err, ErrLink) {
			t.Errorf("%s: %v", what, err)
		}
		if read(t, name) != now {
			t.Errorf("%s: it was changed", what)
		}
		_ = keep.Close()
	}
}

func TestOpenDocumentRefuses(t *testing.T) {
	name := written(t, "{}", 0o600)
	link, twice, fifo := name+".link", name+".twice", name+".fifo"
	if err := errors.Join(os.Symlink(name, link), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		name string
		want error
	}{{link, ErrLink}, {fifo, errKind}, {filepath.Dir(name), errKind}, {name + ".none", fs.ErrNotExist}} {
		if _, err := OpenDocument(Place{Path: bad.name, Format: JSON}); !errors.Is(err, bad.want) {
			t.Errorf("%s: %v", bad.name, err)
		}
	}
	if _, err := OpenDocument(Place{Path: name, Format: JSON}); err != nil {
		t.Errorf("the control: %v", err)
	}
	switch err := unix.Setxattr(name, "user.note", []byte("mine"), 0); {
	case errors.Is(err, unix.ENOTSUP):
	case err != nil:
		t.Fatal(err)
	default:
		if _, err := OpenDocument(Place{Path: name, Format: JSON}); !errors.Is(err, errAttributes) {
			t.Errorf("with an attribute: %v", err)
		}
		if err := unix.Removexattr(name, "user.note"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(name, twice); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDocument(Place{Path: name, Format: JSON}); err == nil {
		t.Error("a file with two names was opened")
	}
}

func TestOpenDocumentOfAnotherUser(t *testing.T) {
	testkit.Need(t, testkit.Root)
	name := written(t, "{}", 0o666)
	if err := os.Chown(name, 1777, 1777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDocument(Place{Path: name, Format: JSON}); !errors.Is(err, errNotOwn) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(os.Chown(name, 0, 0), os.Chown(filepath.Dir(name), 1777, 1777)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDocument(Place{Path: name, Format: JSON}); err == nil {
		t.Error("a file in another user's directory was opened")
	}
}

func TestOpenDocumentClosedToWriting(t *testing.T) {
	testkit.Need(t, testkit.User)
	if _, err := OpenDocument(Place{Path: written(t, "{}", 0o400), Format: JSON}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v", err)
	}
}

// On a full disk, and where a file is mounted by itself, the old text stays whole and nothing is left beside it.
func TestReplaceFails(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	in := make(chan struct{})
	go func() {
		defer close(in)
		runtime.LockOSThread() // for ever: the thread ends with its mounts
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
			t.Error(err)
			return
		}
		old := strings.Repeat("old", 20<<10)
		for want, mount := range map[error]func(dir, name string) error{
			unix.ENOSPC: func(dir, name string) error {
				return errors.Join(unix.Mount("none", dir, "tmpfs", 0, "size=64k"), os.WriteFile(name, []byte(old), 0o600))
			},
			errMounted: func(_, name string) error { return unix.Mount(name, name, "", unix.MS_BIND, "") },
		} {
			name := written(t, old, 0o600)
			if err := mount(filepath.Dir(name), name); err != nil {
				t.Error(err)
				return
			}
			d, err := OpenDocument(Place{Path: name, Format: JSON})
			if err != nil {
				t.Error(err)
				return
			}
			if err := d.Replace([]byte(strings.ToUpper(old))); !errors.Is(err, want) || read(t, name) != old {
				t.Errorf("%v instead of %v", err, want)
			}
			onlyThese(t, filepath.Dir(name), 1)
		}
	}()
	<-in
}
