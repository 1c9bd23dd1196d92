package session

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// Each choice of dirFor, by the directories that exist and are the user's.
func TestDirName(t *testing.T) {
	for _, c := range []struct {
		uid       int
		xdg, ours string // ours: directories, separated by spaces
		want      string
	}{
		{1000, "/run/user/1000", "/run/user/1000", "/run/user/1000/mcp-tether"},
		{1000, "/x", "/x /run/user/1000", "/x/mcp-tether"},
		{1000, "/x", "/run/user/1000", "/run/user/1000/mcp-tether"}, // missing, or another's (sudo keeps the variable)
		{1000, "", "/run/user/1000", "/run/user/1000/mcp-tether"},
		{1000, "x", "x /run/user/1000", "/run/user/1000/mcp-tether"}, // relative: must be ignored
		{1000, "", "", "/tmp/mcp-tether-1000"},
		{1000, "", "/run", "/tmp/mcp-tether-1000"}, // /run is for root alone
		{0, "", "/run", "/run/mcp-tether"},
		{0, "", "/run /run/user/0", "/run/user/0/mcp-tether"},
		{0, "/run/user/1000", "/run", "/run/mcp-tether"},
		{0, "", "", "/tmp/mcp-tether-0"},
	} {
		ours := func(dir string) bool {
			for d := range strings.FieldsSeq(c.ours) {
				if d == dir {
					return true
				}
			}
			return false
		}
		if got := dirFor(c.uid, c.xdg, ours); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// directory makes one with this mode, whatever the umask.
func directory(mode os.FileMode) func(dir string) error {
	return func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)) }
}

func TestDirRefuses(t *testing.T) {
	elsewhere := t.TempDir()
	if err := os.Chmod(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		make func(dir string) error
		hint string
	}{
		"symbolic link":        {func(dir string) error { return os.Symlink(elsewhere, dir) }, "remove it"},
		"dangling link":        {func(dir string) error { return os.Symlink(elsewhere+"/none", dir) }, "remove it"},
		"file":                 {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "remove it"},
		"open to the group":    {directory(0o750), "chmod 700"},
		"open to be passed by": {directory(0o701), "chmod 700"},
		"open to all, sticky":  {directory(0o777 | os.ModeSticky), "chmod 700"},
	} {
		base := t.TempDir()
		if err := c.make(base + "/mcp-tether"); err != nil {
			t.Fatal(err)
		}
		got, err := Open(os.Getuid(), base)
		if err == nil || got != nil {
			t.Errorf("%s: %v was accepted", what, got)
			continue
		}
		if !strings.Contains(err.Error(), c.hint) || !strings.Contains(err.Error(), base) {
			t.Errorf("%s: %v; want a hint to %s", what, err, c.hint)
		}
	}
}

// Nothing is kept in a directory of another user, who could put records there.
func TestDirOfAnotherUser(t *testing.T) {
	testkit.Need(t, testkit.Root)
	const nobody = 65534
	base := t.TempDir()
	if err := os.Mkdir(base+"/mcp-tether", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(base+"/mcp-tether", nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if got, err := Open(0, base); err == nil || !strings.Contains(err.Error(), "belongs to uid "+strconv.Itoa(nobody)) {
		t.Errorf("%v, %v", got, err)
	}
	// A runtime directory of another user is passed over.
	other := filepath.Join(t.TempDir(), "runtime")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(other, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if belongsTo(other, 0) || !belongsTo(other, nobody) || belongsTo(other+"/none", 0) {
		t.Error("the owner of a directory was mistaken")
	}
	if got := dirFor(0, other, func(dir string) bool { return belongsTo(dir, 0) }); strings.HasPrefix(got, other) {
		t.Errorf("uses %s", got)
	}
}
