package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// Each file system numbers its files on its own.
func TestOwnOnSeveralFileSystems(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	dir := t.TempDir()
	var want []string
	for _, name := range []string{dir + "/a", dir + "/b"} {
		if err := errors.Join(os.Mkdir(name, 0o700), unix.Mount("none", name, "tmpfs", 0, "mode=0700")); err != nil {
			testkit.Lacks(t, testkit.Namespaces, true, "to mount: "+err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(name, unix.MNT_DETACH) })
		want = append(want, name)
	}
	all, _ := own(want, 0)
	if got := namesOf(all); !slices.Equal(got, want) {
		t.Errorf("of %v only %v", want, got)
	}
}

// A record that cannot be examined counts as held.
func TestHeldOddLocks(t *testing.T) {
	for name, make := range map[string]func(lock string) error{
		"a FIFO":            func(lock string) error { return unix.Mkfifo(lock, 0o600) },
		"a directory":       func(lock string) error { return os.Mkdir(lock, 0o700) },
		"a dangling link":   func(lock string) error { return os.Symlink("/nonexistent", lock) },
		"a link to another": func(lock string) error { return os.Symlink("/etc/passwd", lock) },
	} {
		dir, id := t.TempDir(), NewID()
		if err := make(dir + "/" + id + ".json"); err != nil {
			t.Fatal(err)
		}
		if held, err := open(t, dir).Held(id); !held || err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, held, err)
		}
	}
}

func TestIDs(t *testing.T) {
	dir := t.TempDir()
	want := []string{"00112233445566ff", "aaaaaaaaaaaaaaaa", "ffffffffffffffff"}
	for _, name := range []string{
		want[0] + ".json", want[0] + ".lock", "bbbbbbbbbbbbbbbb.lock", want[1] + ".json", "cccccccccccccccc.json.tmp",
		"reap.lock", "short.json", "zzzzzzzzzzzzzzzz.json", want[2] + ".json", want[1], ".json", "00112233445566ff0.json",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := open(t, dir).IDs()
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestOwn(t *testing.T) {
	dir := t.TempDir()
	good, open, file, link := dir+"/good", dir+"/open", dir+"/file", dir+"/link"
	for name, mode := range map[string]os.FileMode{good: 0o700, open: 0o777} {
		if err := os.Mkdir(name, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	got, left := own([]string{good, open, file, link, dir + "/none", good, good + "/."}, uid)
	if names := namesOf(got); len(names) != 1 || names[0] != good {
		t.Errorf("%v", names)
	}
	if len(left) != 1 || !strings.Contains(left[0].Error(), open) {
		t.Errorf("left out: %v", left)
	}
	// Another user's directory is not opened, not even by root, and not worth a word.
	if got, left := own([]string{good, open}, uid+1); len(got)+len(left) > 0 {
		t.Errorf("%v, left out: %v", got, left)
	}
}

// namesOf closes directories and gives their names.
func namesOf(dirs []*Directory) (names []string) {
	for _, d := range dirs {
		names = append(names, d.Name)
	}
	CloseAll(dirs)
	return names
}

func TestDirs(t *testing.T) {
	runtime := t.TempDir()
	if err := os.Mkdir(runtime+"/mcp-tether", 0o700); err != nil {
		t.Fatal(err)
	}
	want := runtime + "/mcp-tether"
	if got := namesOf(OpenAll(os.Getuid(), runtime)); !slices.Contains(got, want) {
		t.Errorf("%v lacks %v", got, want)
	}
	for _, odd := range []string{"", "relative", runtime + "/none"} {
		if got := namesOf(OpenAll(os.Getuid(), odd)); slices.Contains(got, want) {
			t.Errorf("%q: %v", odd, got)
		}
	}
}

func TestUsersByName(t *testing.T) {
	var got []int
	for _, name := range []string{"1000", "0", "-1", "01", "x", "", "4294967295", "4294967294", "4294967293", "1001/"} {
		got = appendUID(got, name)
	}
	if !slices.Equal(got, []int{1000, 0, 4294967293}) {
		t.Errorf("%v", got)
	}
}

func TestRemoveSession(t *testing.T) {
	dir, id := t.TempDir(), NewID()
	l, err := open(t, dir).Take(id)
	if err == nil {
		err = l.Write(Record{Version: Version, ID: id})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Remove(id); !errors.Is(err, ErrHeld) {
		t.Errorf("a living session: %v", err)
	}
	if _, err := open(t, dir).Read(id); err != nil {
		t.Errorf("its record: %v", err)
	}
	l.Release()
	if err := open(t, dir).Remove(id); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := open(t, dir).Remove(id); err != nil {
		t.Errorf("gone already: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("removing what is gone left %v, %v", left, err)
	}
}
