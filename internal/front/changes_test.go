package front

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A file counts when another one takes its place, when it is written to, and when it comes; what is beside it does not, nor what
// is below a directory.
func TestChanges(t *testing.T) {
	dir, src := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "server")
	c, err := watchFor([]string{path, filepath.Join(dir, "more"), src})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c.fd)
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(src, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.read(time.Now())
	for name, tt := range map[string]struct {
		do    func()
		wants bool
	}{
		"comes":               {func() { write(path) }, true},
		"is written":          {func() { write(path) }, true},
		"is replaced":         {func() { write(path + ".new"); _ = os.Rename(path+".new", path) }, true},
		"the second file":     {func() { write(filepath.Join(dir, "more")) }, true},
		"another file":        {func() { write(filepath.Join(dir, "other")) }, false},
		"in the directory":    {func() { write(filepath.Join(src, "a")) }, true},
		"below the directory": {func() { write(filepath.Join(src, "below", "a")) }, false},
		"nothing":             {func() {}, false},
	} {
		c.settleAt = time.Time{}
		tt.do()
		now := time.Now()
		if c.read(now); c.settleAt.IsZero() == tt.wants || tt.wants && !c.settleAt.After(now) {
			t.Errorf("%s: settles at %v", name, c.settleAt)
		}
	}
	if _, err := watchFor([]string{filepath.Join(dir, "none", "x")}); err == nil {
		t.Error("a directory that is not there is watched")
	}
	if nothing, err := watchFor(nil); err != nil || nothing.polled() != -1 {
		t.Errorf("without the flag: %v", err)
	}
}

// A wish waits for open calls, as long as they may take, and for a server that is there. Where there is none nothing is to be done.
func TestRestartWaits(t *testing.T) {
	for _, p := range []phase{awake, trying, waking, asleep, falling} {
		f, _, _ := withClient(t, p)
		f.wantRestart(time.Hour)
		f.restartIfReady(time.Now())
		if want := p == awake || p == trying; f.restart.under != want || (f.phase == falling && f.fall == replace) != want {
			t.Errorf("phase %v: now %v, %+v", p, f.phase, f.restart)
		}
		if waits := !f.restart.by.IsZero(); waits != (p == waking) {
			t.Errorf("phase %v: %+v", p, f.restart)
		}
	}
}
