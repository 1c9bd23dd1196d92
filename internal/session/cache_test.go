package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

func openCache(t *testing.T, base string) *Directory {
	t.Helper()
	d, err := OpenCache(os.Getuid(), base, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// The cache is in the user's own directory, or nowhere.
func TestOpenCache(t *testing.T) {
	home := t.TempDir()
	for name, c := range map[string]struct{ xdg, home, want string }{
		"XDG_CACHE_HOME":  {home, "", home + "/mcp-tether"},
		"home":            {"", home, home + "/.cache/mcp-tether"},
		"XDG, missing":    {home + "/new", "", home + "/new/mcp-tether"},
		"XDG, no parent":  {home + "/none/new", "", ""},
		"relative":        {"x", home, home + "/.cache/mcp-tether"},
		"neither":         {"", "", ""},
		"no home":         {"", home + "/none", ""},
		"not a directory": {"/dev/null", home, ""},
	} {
		d, err := OpenCache(os.Getuid(), c.xdg, c.home)
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%s: %s", name, d.Name)
		case c.want != "" && (err != nil || d.Name != c.want):
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	if st, err := os.Stat(home + "/.cache/mcp-tether"); err != nil || st.Mode().Perm() != 0o700 {
		t.Error(st, err)
	}
	// The home of another user (sudo keeps HOME) gets no file of ours.
	other := t.TempDir()
	_, err := OpenCache(os.Getuid()+1, "", other)
	_, xdgErr := OpenCache(os.Getuid()+1, other+"/new", "")
	if left, _ := os.ReadDir(other); err == nil || xdgErr == nil || len(left) > 0 {
		t.Error("made a cache in the directory of another user", left)
	}
}

// What is read is what was written last, whole, by us.
func TestCached(t *testing.T) {
	base := t.TempDir()
	d := openCache(t, base)
	if _, err := d.ReadCached("a"); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := d.WriteCached("a", []byte(strings.Repeat(fmt.Sprint(i%10), 100000))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b, err := d.ReadCached("a")
	if err != nil || len(b) != 100000 || strings.Trim(string(b), string(b[:1])) != "" {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if names, _ := os.ReadDir(d.Name); len(names) != 1 {
		t.Error("left:", names)
	}
	file := filepath.Join(d.Name, "a.json")
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st, err)
	}
	if err := errors.Join(d.RemoveCached("a"), d.RemoveCached("a"), os.Symlink("/etc/passwd", file)); err != nil {
		t.Fatal(err)
	}
	if b, err := d.ReadCached("a"); err == nil {
		t.Errorf("a link was followed: %s", b)
	}
	if err := errors.Join(d.RemoveCached("a"), os.WriteFile(file, nil, 0o600), os.Truncate(file, maxCachedEntry+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadCached("a"); err == nil {
		t.Error("a huge file was read")
	}
	if err := d.WriteCached("b", make([]byte, maxCachedEntry+1)); err == nil {
		t.Error("a huge entry was written")
	}
}

func TestCachedOfAnotherUser(t *testing.T) {
	testkit.Need(t, testkit.Root)
	d := openCache(t, t.TempDir())
	if err := errors.Join(d.WriteCached("a", []byte("x")), os.Chown(d.Name+"/a.json", 65534, 0)); err != nil {
		t.Fatal(err)
	}
	if b, err := d.ReadCached("a"); err == nil {
		t.Errorf("believed what another user owns: %s", b)
	}
}

// A cache is bounded in entries and bytes; the oldest go, and so does what killed writers have left.
func TestCacheIsBounded(t *testing.T) {
	d := openCache(t, t.TempDir())
	past := time.Now().Add(-time.Hour)
	put := func(name string, size int) {
		t.Helper()
		if err := d.WriteCached(name, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		past = past.Add(time.Second)
		if err := os.Chtimes(d.Name+"/"+name+".json", past, past); err != nil {
			t.Fatal(err)
		}
	}
	killed := d.Name + "/" + file("x.0123", nextSuffix)
	if err := errors.Join(os.WriteFile(killed, nil, 0o600), os.Chtimes(killed, past, past)); err != nil {
		t.Fatal(err)
	}
	for i := range maxCached + 5 {
		put(fmt.Sprintf("%03d", i), 1)
	}
	all, err := os.ReadDir(d.Name)
	if err != nil || len(all) != maxCached || all[0].Name() < "004" {
		t.Errorf("%d entries, the oldest %v, %v", len(all), all[0], err)
	}
	for i := range maxCachedBytes/maxCachedEntry + 3 {
		put(fmt.Sprintf("large%02d", i), maxCachedEntry)
	}
	bytes := int64(0)
	all, _ = os.ReadDir(d.Name)
	for _, c := range all {
		if st, err := c.Info(); err == nil {
			bytes += st.Size()
		}
	}
	if bytes > maxCachedBytes || len(all) < maxCachedBytes/maxCachedEntry-1 {
		t.Errorf("%d bytes in %d entries", bytes, len(all))
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("what a killed writer left is still there")
	}
}
