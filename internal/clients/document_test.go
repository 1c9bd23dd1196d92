package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

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
		backup, err := d.Replace([]byte("new"), true)
		if err != nil || read(t, name) != "new" || read(t, backup) != "old" {
			t.Errorf("%v: %q, %q", err, read(t, name), read(t, backup))
		}
		for f, mode := range map[string]fs.FileMode{name: mode, backup: backupMode} {
			if st, err := os.Stat(f); err != nil || st.Mode().Perm() != mode {
				t.Errorf("%s has mode %v, %v", f, st.Mode(), err)
			}
		}
		onlyThese(t, filepath.Dir(name), 2)
	}
}

// A backup whose file could not be replaced may hold secrets: it goes.
func TestReplaceFailsWithoutABackup(t *testing.T) {
	name := written(t, "old", 0o600)
	d, err := OpenDocument(Place{Path: name, Format: JSON})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if backup, err := d.Replace([]byte("new"), true); !errors.Is(err, ErrChanged) || backup != "" {
		t.Errorf("%q, %v", backup, err)
	}
	onlyThese(t, filepath.Dir(name), 1)
}

// A file of the user's own that has the backup's name is neither overwritten nor removed, even if it holds the same.
func TestReplaceLeavesAnotherBackup(t *testing.T) {
	for _, own := range []string{"mine", "old"} {
		name := written(t, "old", 0o600)
		if err := os.WriteFile(name+backupSuffix, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, change := range [][2]string{{"old", "new"}, {"new", "old"}} {
			d, err := OpenDocument(Place{Path: name, Format: JSON})
			if err != nil || string(d.Text) != change[0] || d.HasBackup() {
				t.Fatalf("%q, %v", d.Text, err)
			}
			if backup, err := d.Replace([]byte(change[1]), change[0] == "old"); err != nil || backup != "" || read(t, name+backupSuffix) != own {
				t.Errorf("%q, %v; it holds %q", backup, err, read(t, name+backupSuffix))
			}
		}
	}
}

// Our own goes with the text that it holds, and is made anew for another.
func TestReplaceRemovesItsBackup(t *testing.T) {
	name := written(t, "old", 0o600)
	for i, change := range []struct {
		text string
		keep bool
		left int
	}{{"new", true, 2}, {"old", false, 1}, {"new", true, 2}, {"newer", true, 2}, {"new", false, 1}} {
		d, err := OpenDocument(Place{Path: name, Format: JSON})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Replace([]byte(change.text), change.keep); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		onlyThese(t, filepath.Dir(name), change.left)
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
		if _, err := d.Replace([]byte("new"), true); !errors.Is(err, ErrChanged) && !errors.Is(err, ErrLink) {
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
