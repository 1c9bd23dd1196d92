package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// walked is a search for leaves below a directory.
func walked(t *testing.T, dir string) search {
	t.Helper()
	s := search{is: func(id string) bool { return id != "other" }, uid: os.Getuid()}
	s.walk(dir)
	for i := range s.leaves {
		s.leaves[i].Dir = strings.TrimPrefix(s.leaves[i].Dir, dir+"/")
	}
	return s
}

func TestFind(t *testing.T) {
	l := newLeaf(t)
	began := time.Now().Add(-time.Second) // file systems stamp by a coarser clock
	id := fmt.Sprintf("test-find-%d", os.Getpid())
	for _, name := range []string{"/scope", "/scope/" + Prefix + id, "/scope/" + Prefix + id + "/" + Prefix + id, "/" + Prefix + "other", "/" + id} {
		if err := os.Mkdir(l.Dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := l.Dir + "/scope/" + Prefix + id
	all, err := Find(func(i string) bool { return i == id })
	if err != nil || len(all) != 1 || all[0].Dir != want || all[0].ID != id || all[0].UID != os.Getuid() {
		t.Fatalf("%+v, %v", all, err)
	}
	// A leaf that is used does not look younger or older than it is.
	c := (&Leaf{Dir: want}).start(t)
	again, err := Find(func(i string) bool { return i == id })
	if err != nil || len(again) != 1 || again[0] != all[0] || again[0].Made.Before(began) || again[0].Made.After(time.Now().Add(time.Second)) {
		t.Errorf("%+v, %v; before %+v", again, err, all)
	}
	c.in.Close()
	_ = c.cmd.Wait()
}

func TestFindNothing(t *testing.T) {
	all, err := Find(func(string) bool { return false })
	if errors.Is(err, ErrNone) {
		testkit.Lacks(t, testkit.Cgroup, true, "cgroup v2")
	}
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// A deep hierarchy ends the search, not the program. A name may be as short as can be.
func TestSearchBounded(t *testing.T) {
	dir := t.TempDir()
	deep := dir + strings.Repeat("/d", maxDepth-1)
	if err := os.MkdirAll(deep+"/d/"+Prefix+"lost", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir + "/d/d/", deep + "/"} {
		if err := errors.Join(os.Mkdir(at+Prefix+"want", 0o700), os.Mkdir(at+Prefix+"other", 0o700), os.Mkdir(at+Prefix, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if s := walked(t, dir); len(s.leaves) != 4 || !errors.Is(s.err, ErrNotSearched) {
		t.Errorf("too deep: %v, %v", s.leaves, s.err)
	}
	if err := os.RemoveAll(deep + "/d"); err != nil {
		t.Fatal(err)
	}
	if s := walked(t, dir); len(s.leaves) != 4 || s.err != nil {
		t.Errorf("%v, %v", s.leaves, s.err)
	}
}

// However much a user makes, root looks below nothing that is another user's.
func TestSearchOfManyUsers(t *testing.T) {
	testkit.Need(t, testkit.Root)
	dir := t.TempDir()
	for user, name := range map[int]string{1000: "/a", 1001: "/b/c", 1002: "/b/" + Prefix + "want"} {
		if err := errors.Join(os.MkdirAll(dir+name+"/"+Prefix+"theirs", 0o700), os.Chown(dir+name, user, user)); err != nil {
			t.Fatal(err)
		}
	}
	s := walked(t, dir)
	if s.err != nil || len(s.leaves) != 1 || s.leaves[0].UID != 1002 {
		t.Errorf("%+v", s)
	}
	own := search{is: s.is, uid: 1000}
	if own.walk(dir); len(own.leaves) != 2 {
		t.Errorf("the pass of a user: %+v", own)
	}
}

// What cannot be opened for want of a descriptor is not looked at, and that is said. What is gone by now is no matter.
func TestSearchWithoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/a/b/"+Prefix+"want", 0o700); err != nil {
		t.Fatal(err)
	}
	var s search
	testkit.WithFiles(t, 0, func() { s = walked(t, dir) })
	if len(s.leaves) > 0 || !errors.Is(s.err, ErrNotSearched) || !errors.Is(s.err, unix.EMFILE) {
		t.Errorf("%v, %v", s.leaves, s.err)
	}
	if s = walked(t, dir); len(s.leaves) != 1 || s.err != nil {
		t.Errorf("the control: %v, %v", s.leaves, s.err)
	}
	for _, harmless := range []error{unix.ENOENT, unix.ENODEV, unix.EACCES} {
		if s.cut(fmt.Errorf("open: %w", harmless)); s.err != nil {
			t.Error(s.err)
		}
	}
}

func TestMountPoints(t *testing.T) {
	const mounts = `20 1 8:1 / / rw - ext4 /dev/sda rw
30 20 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 20 0:27 /a /mnt/with\040space rw - cgroup2 cgroup2 rw
`
	if got := mountPoints([]byte(mounts)); !slices.Equal(got, []string{"/sys/fs/cgroup/unified", "/mnt/with space"}) {
		t.Errorf("%q", got)
	}
	if got := mountPoints(nil); got != nil {
		t.Errorf("%q", got)
	}
}
