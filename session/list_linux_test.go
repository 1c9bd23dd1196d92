package session

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// Each file system numbers its files on its own.
func TestOwnOnSeveralFileSystems(t *testing.T) {
	testkit.Need(t, os.Getuid() == 0, "root, to mount")
	dir := t.TempDir()
	var want []string
	for _, name := range []string{dir + "/a", dir + "/b"} {
		if err := errors.Join(os.Mkdir(name, 0o700), unix.Mount("none", name, "tmpfs", 0, "mode=0700")); err != nil {
			testkit.Need(t, false, "to mount: "+err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(name, unix.MNT_DETACH) })
		want = append(want, name)
	}
	all, _ := own(want, 0)
	if got := namesOf(all); !slices.Equal(got, want) {
		t.Errorf("of %v only %v", want, got)
	}
}
