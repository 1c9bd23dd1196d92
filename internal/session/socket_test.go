package session

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// journalled is a session's id.
const journalled = "0123456789abcdef"

// The socket is where the history is, and not in the runtime directory: that goes at the last logout.
func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	fd, path, err := Listen(journalled, os.Getuid(), state, "")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	st, err := os.Stat(path)
	if err != nil || st.Mode() != os.ModeSocket|0o600 || path != state+"/mcp-tether/"+journalled+".sock" {
		t.Fatalf("%s: %v, %v", path, st.Mode(), err)
	}
	if err := RemoveSocket(path, journalled); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is still there")
	}
}

// If a path does not fit into a socket address, or there is no such directory, the socket is made below /tmp.
func TestTheSocketFallsBackBelowTmp(t *testing.T) {
	id := NewID() // another run has the same directory
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"/proc", long} {
		fd, path, err := Listen(id, os.Getuid(), state, "")
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		if want := "/tmp/mcp-tether-" + strconv.Itoa(os.Getuid()) + "/" + id + ".sock"; path != want {
			t.Errorf("for %q: %s, want %s", state, path, want)
		}
		if err := RemoveSocket(path, id); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Error("the socket is still there")
		}
	}
}

func TestOnlyASessionsSocketIsRemoved(t *testing.T) {
	state := t.TempDir()
	fd, other, err := Listen("fedcba9876543210", os.Getuid(), state, "")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	file := filepath.Join(filepath.Dir(other), journalled+".sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{other, file, "", "/" + journalled + ".sock"} {
		if err := RemoveSocket(path, journalled); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{other, file} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("removed: %v", err)
		}
	}
}

// A link in the socket's place leads to the engine, until no process of the session is left.
func TestLinkForKeptProcesses(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	fd, path, err := Listen(journalled, os.Getuid(), state, "")
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if err := LeaveLink(path, journalled, dir+"/engine.sock"); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(path); err != nil || to != dir+"/engine.sock" {
		t.Fatalf("%s, %v", to, err)
	}
	d := open(t, filepath.Dir(path))
	old := []unix.Timespec{unix.NsecToTimespec(time.Now().Add(-time.Hour).UnixNano()), unix.NsecToTimespec(time.Now().Add(-time.Hour).UnixNano())}
	for name, c := range map[string]struct {
		old, there bool
		isUsed     func(string) bool
	}{
		"1 young":     {there: true, isUsed: func(string) bool { return false }},
		"2 used":      {old: true, there: true, isUsed: func(id string) bool { return id == journalled }},
		"3 not known": {old: true, there: true},
		"4 not used":  {old: true, isUsed: func(string) bool { return false }},
	} {
		if err := LeaveLink(path, journalled, dir+"/engine.sock"); err != nil {
			t.Fatal(err)
		}
		if c.old {
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.RemoveDeadSockets(c.isUsed); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); (err == nil) != c.there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A socket without a listener goes, one that is listened on stays, and so does a young one.
func TestOnlyDeadSocketsAreRemoved(t *testing.T) {
	state := t.TempDir()
	const living, young = "00000000000000aa", "00000000000000cc"
	fds := map[string]int{}
	for _, id := range []string{journalled, living, young} {
		fd, path, err := Listen(id, os.Getuid(), state, "")
		if err != nil {
			t.Fatal(err)
		}
		if old := time.Now().Add(-time.Hour); id != young {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
		fds[id] = fd
	}
	unix.Close(fds[journalled])
	unix.Close(fds[young])
	defer unix.Close(fds[living])
	if err := open(t, state+"/mcp-tether").RemoveDeadSockets(nil); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{journalled: false, living: true, young: true} {
		if _, err := os.Lstat(state + "/mcp-tether/" + id + ".sock"); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", id, err == nil, want)
		}
	}
}
