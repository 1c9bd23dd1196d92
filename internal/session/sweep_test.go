package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcp-tether/internal/proc"
)

// deadOne leaves the lock of a dead supervisor, and a record.
func deadOne(t *testing.T, dir string) (id string) {
	t.Helper()
	id = NewID()
	l, err := open(t, dir).Take(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(Record{Version: Version, ID: id}); err != nil {
		t.Fatal(err)
	}
	l.Release()
	return id
}

// swept makes a sweep that judges one session, and ends none.
func swept(t *testing.T, dir, tried string, idle bool) {
	t.Helper()
	var r proc.Reader
	here, err := r.ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(t, dir).TakeSweep()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.EndSweep(here, idle, func(id string) bool { return id == tried }); err != nil {
		t.Fatal(err)
	}
}

// age makes what the last sweep has left older.
func age(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(dir, "sweep.lock"), at, at); err != nil {
		t.Fatal(err)
	}
}

// What a sweep could not judge starts no other one, until something is different.
func TestUnswept(t *testing.T) {
	const none, rested = time.Duration(0), 2 * time.Minute
	another := func(t *testing.T, dir, _ string) { deadOne(t, dir) }
	for name, c := range map[string]struct {
		tried  bool
		busy   bool // it has ended something
		after  time.Duration
		change func(t *testing.T, dir, id string)
		want   bool
	}{
		"at once":                         {after: none},
		"later":                           {after: rested},
		"after an hour":                   {after: 61 * time.Minute, want: true},
		"judged, at once":                 {tried: true, after: none},
		"judged, later":                   {tried: true, after: rested, want: true},
		"another one, at once":            {after: none, change: another},
		"another one, later":              {after: rested, change: another, want: true},
		"another one, after a busy sweep": {busy: true, after: none, change: another, want: true},
		"none other, after a busy sweep":  {busy: true, after: none},
		"its record was replaced": {after: rested, want: true, change: func(t *testing.T, dir, id string) {
			l, err := open(t, dir).Take(id)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if err := l.Write(Record{Version: Version, ID: id}); err != nil {
				t.Fatal(err)
			}
		}},
		"its record is gone": {after: rested, want: true, change: func(t *testing.T, dir, id string) {
			if err := os.Remove(filepath.Join(dir, id+".json")); err != nil {
				t.Fatal(err)
			}
		}},
		"the note is damaged": {after: none, want: true, change: func(t *testing.T, dir, _ string) {
			if err := os.WriteFile(filepath.Join(dir, "sweep.lock"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"the clock was set back": {after: -time.Hour, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id := deadOne(t, dir)
			if !open(t, dir).Unswept() {
				t.Fatal("a dead session is no reason for the first sweep")
			}
			tried := ""
			if c.tried {
				tried = id
			}
			swept(t, dir, tried, !c.busy)
			age(t, dir, c.after)
			if c.change != nil {
				// The note keeps its age: only its content may be damaged.
				c.change(t, dir, id)
			}
			if got := open(t, dir).Unswept(); got != c.want {
				t.Errorf("another sweep: %t, want %t", got, c.want)
			}
		})
	}
}

// Elsewhere, as in another pid namespace, a sweep may know more.
func TestUnsweptElsewhere(t *testing.T) {
	dir := t.TempDir()
	deadOne(t, dir)
	l, err := open(t, dir).TakeSweep()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.EndSweep(proc.Host{Boot: "b", PIDNS: 1}, true, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if !open(t, dir).Unswept() {
		t.Error("what was noted elsewhere counts here")
	}
}

// One sweep runs at a time. When no dead session is left, nothing of it is.
func TestOneSweep(t *testing.T) {
	dir := t.TempDir()
	id := deadOne(t, dir)
	l, err := open(t, dir).TakeSweep()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir).TakeSweep(); !errors.Is(err, ErrHeld) {
		t.Errorf("two sweeps at once: %v", err)
	}
	if open(t, dir).Unswept() {
		t.Error("a sweep is started beside another one")
	}
	l.Release()
	if !open(t, dir).Unswept() {
		t.Error("a sweep that was killed counts")
	}
	swept(t, dir, "", true)
	if err := errors.Join(open(t, dir).TidySweep(), open(t, dir).Remove(id)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sweep.lock")); err != nil {
		t.Errorf("it is forgotten while a dead session is there: %v", err)
	}
	if err := open(t, dir).TidySweep(); err != nil {
		t.Fatal(err)
	}
	deadOne(t, dir)
	swept(t, dir, "", true)
	if err := os.RemoveAll(filepath.Join(dir, "sweep.lock")); err != nil {
		t.Fatal(err)
	}
	for _, id := range open(t, dir).dead() {
		if err := open(t, dir).Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	swept(t, dir, "", true)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
