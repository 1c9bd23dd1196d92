package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// found lists what Find finds below dir, by name.
func found(t *testing.T, dir, prefix string) map[string]Found {
	t.Helper()
	all, err := Find(prefix)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Found{}
	for _, f := range all {
		if rel, ok := strings.CutPrefix(f.Dir, dir+"/"); ok {
			out[rel] = f
		}
	}
	return out
}

func TestFind(t *testing.T) {
	began := time.Now().Add(-time.Second) // file systems stamp by a coarser clock
	top := parent(t)
	prefix := fmt.Sprintf("find-%d-", os.Getpid())
	var made []string
	t.Cleanup(func() {
		for _, dir := range slices.Backward(made) {
			if err := unix.Rmdir(dir); err != nil {
				t.Error(err)
			}
		}
	})
	for _, name := range []string{
		prefix + "a", prefix + "a/" + prefix + "nested", "x" + prefix + "other", "x" + prefix + "other/deep", "x" + prefix + "other/deep/" + prefix + "b",
	} {
		if err := os.Mkdir(top+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		made = append(made, top+"/"+name)
	}
	got := found(t, top, prefix)
	want := []string{prefix + "a", "x" + prefix + "other/deep/" + prefix + "b"}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, name := range want {
		f, ok := got[name]
		if !ok || f.Made.Before(began) || f.Made.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A leaf that is used does not look younger or older than it is.
func TestFindMade(t *testing.T) {
	l := newLeaf(t)
	name := l.Dir[strings.LastIndexByte(l.Dir, '/')+1:]
	before := found(t, parent(t), name)[name].Made
	c := l.start(t)
	after := found(t, parent(t), name)[name].Made
	if !after.Equal(before) {
		t.Errorf("made %v, with a process in it %v", before, after)
	}
	c.in.Close()
	_ = c.cmd.Wait()
}

func TestFindNothing(t *testing.T) {
	all, err := Find("no cgroup has such a name")
	if errors.Is(err, ErrNone) {
		testkit.Lacks(t, testkit.Cgroup, true, "cgroup v2")
	}
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// Deep and wide hierarchies end the search, not the program.
func TestSearchBounded(t *testing.T) {
	dir := t.TempDir()
	deep := dir
	for range maxLevels + 5 {
		deep += "/d"
		if err := os.Mkdir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{dir + "/d/d", deep} {
		if err := os.Mkdir(at+"/want", 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := searched(t, dir, maxCgroups)
	if len(s.out) != 1 || s.out[0].Dir != dir+"/d/d/want" || !errors.Is(s.err, ErrNotSearched) {
		t.Errorf("too deep: %v, %v", s.out, s.err)
	}
	if err := os.RemoveAll(dir + "/d/d/d"); err != nil {
		t.Fatal(err)
	}
	if s = searched(t, dir, 3); len(s.out) != 1 || s.err != nil {
		t.Errorf("just as much as the limit: %v, %v", s.out, s.err)
	}
	if s = searched(t, dir, 2); len(s.out) > 0 || !errors.Is(s.err, ErrNotSearched) {
		t.Errorf("more than the limit: %v, %v", s.out, s.err)
	}
}

// However many cgroups a user makes, those of other users are found, and it is said that some were not looked at. What is
// below a user's cgroup counts for that user, whoever owns it.
func TestSearchOfManyUsers(t *testing.T) {
	testkit.Need(t, testkit.Root)
	const most = 8
	dir := t.TempDir()
	for user := range 3 {
		below := fmt.Sprintf("%s/%d", dir, user)
		for n := range most {
			name := fmt.Sprintf("%s/%d/want", below, n)
			if err := errors.Join(os.MkdirAll(name, 0o700), os.Chown(path.Dir(name), 2000+n, 2000+n), os.Chown(below, 1000+user, 1000+user)); err != nil {
				t.Fatal(err)
			}
			if user == 1 {
				break // a small one between two large ones
			}
		}
	}
	s := searched(t, dir, most)
	if !slices.ContainsFunc(s.out, func(f Found) bool { return f.Dir == dir+"/1/0/want" }) || !errors.Is(s.err, ErrNotSearched) {
		t.Errorf("%v, %v", s.out, s.err)
	}
	if s = searched(t, dir, 100); len(s.out) != 2*most+1 || s.err != nil {
		t.Errorf("below the limit: %v, %v", s.out, s.err)
	}
}

// What cannot be opened for want of a descriptor is not looked at, and that is said. What is gone by now is no matter.
func TestSearchWithoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/a/b/c/d/want", 0o700); err != nil {
		t.Fatal(err)
	}
	s := search{prefix: "want", top: os.Getuid(), most: maxCgroups, seen: map[int]int{}}
	top := opened(t, dir)
	testkit.WithFiles(t, uint64(top+3), func() { s.below(top, dir, maxLevels, s.top) })
	if len(s.out) > 0 || !errors.Is(s.err, ErrNotSearched) || !errors.Is(s.err, unix.EMFILE) {
		t.Errorf("%v, %v", s.out, s.err)
	}
	if s = searched(t, dir, maxCgroups); len(s.out) != 1 || s.err != nil {
		t.Errorf("the control: %v, %v", s.out, s.err)
	}
	s.err = nil
	for _, harmless := range []error{unix.ENOENT, unix.ENODEV, unix.EACCES} {
		if s.cut(s.top, fmt.Errorf("open: %w", harmless)); s.err != nil {
			t.Error(s.err)
		}
	}
}

// searched is a search below a directory.
func searched(t *testing.T, dir string, most int) search {
	t.Helper()
	s := search{prefix: "want", top: os.Getuid(), most: most, seen: map[int]int{}}
	s.below(opened(t, dir), dir, maxLevels, s.top)
	return s
}

// opened opens a directory for search, which closes it.
func opened(t *testing.T, dir string) int {
	t.Helper()
	fd, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		t.Fatal(err)
	}
	return fd
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
