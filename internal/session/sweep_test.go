package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// One sweep runs at a time, and the next one begins a minute later.
func TestOneSweep(t *testing.T) {
	dir := open(t, t.TempDir())
	lock, err := dir.TakeSweep()
	if err != nil {
		t.Fatal(err)
	}
	again := func(want error) {
		t.Helper()
		next, err := open(t, dir.Name).TakeSweep()
		if err == nil {
			next.Release()
		}
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	age := func() {
		at := time.Now().Add(-2 * time.Minute)
		if err := os.Chtimes(filepath.Join(dir.Name, "sweep.lock"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	again(ErrHeld)
	age()
	again(ErrHeld) // It is still under way.
	lock.Release()
	again(nil)
	again(ErrHeld)
	age()
	again(nil)
}

func TestHasDead(t *testing.T) {
	dir := open(t, t.TempDir())
	if dir.HasDead() {
		t.Error("an empty directory has a dead session")
	}
	l, err := dir.Take(NewID())
	if err == nil {
		err = l.Write(Record{Version: Version, ID: l.id})
	}
	if err != nil {
		t.Fatal(err)
	}
	if dir.HasDead() {
		t.Error("a living session counts")
	}
	l.Release()
	if !dir.HasDead() {
		t.Error("a dead session does not count")
	}
}
