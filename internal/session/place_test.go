package session

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// The lock of a place is held by one process at a time, and the socket leads to a listener. Nothing is left in the end.
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir).Place("k")
	if _, err := p.Connect(); !errors.Is(err, ErrNoHost) {
		t.Errorf("connected to none: %v", err)
	}
	lock, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir).Place("k").Lock(); !errors.Is(err, ErrHeld) {
		t.Errorf("a second lock: %v", err)
	}
	for range 2 { // The second time there is a socket without a listener.
		fd, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := p.Connect()
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(conn)
		unix.Close(fd)
		if _, err := p.Connect(); !errors.Is(err, ErrNoHost) {
			t.Errorf("connected to a dead host: %v", err)
		}
	}
	want := Sharing{Host: proc.ID{PID: 1, Start: 2}, Sessions: []Attached{{ID: proc.ID{PID: 3, Start: 4}, Gateway: proc.ID{PID: 5, Start: 6}}}}
	if err := p.Tell(want); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Sharing(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("told %+v, %v", got, err)
	}
	if ids, err := open(t, dir).IDs(); err != nil || len(ids) != 0 {
		t.Errorf("a place is taken for a session: %q, %v", ids, err)
	}
	if err := lock.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// What a killed host has left is removed, but not what a living host has, nor what is young.
func TestDeadPlaces(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	locks := map[string]*Lease{}
	for _, key := range []string{"dead", "lives", "young"} {
		p := d.Place(key)
		lock, err := p.Lock()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		locks[key] = lock
	}
	locks["dead"].Release()
	locks["young"].Release()
	if d.hasDeadPlaces() {
		t.Error("young places are taken for dead")
	}
	old := time.Now().Add(-time.Hour)
	for _, key := range []string{"dead", "lives"} {
		if err := os.Chtimes(dir+"/share-"+key+".lock", old, old); err != nil {
			t.Fatal(err)
		}
	}
	if !d.hasDeadPlaces() {
		t.Error("a dead place is not seen")
	}
	if err := d.removeDeadPlaces(); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(dir + "/share-*.sock")
	if len(left) != 2 || d.hasDeadPlaces() {
		t.Errorf("left: %q", left)
	}
}

// All processes of a user have one secret, whichever of them makes it; a damaged file is no secret.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	first, err := open(t, dir).Secret()
	if err != nil || first == [16]byte{} {
		t.Fatal(first, err)
	}
	if again, err := open(t, dir).Secret(); err != nil || again != first {
		t.Errorf("%x, %v; want %x", again, err, first)
	}
	if info, err := os.Stat(dir + "/" + keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if other, err := open(t, t.TempDir()).Secret(); err != nil || other == first {
		t.Errorf("two users have the secret %x, %v", other, err)
	}
	if err := os.Truncate(dir+"/"+keyFile, 3); err != nil {
		t.Fatal(err)
	}
	if k, err := open(t, dir).Secret(); err == nil {
		t.Errorf("of a damaged file came %x", k)
	}
}
