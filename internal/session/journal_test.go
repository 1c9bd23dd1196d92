package session

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine"
)

const journalled = "0123456789abcdef"

func notes() []engine.Note {
	return []engine.Note{
		{Op: engine.OpCreate, Kind: engine.Container, Request: "a", At: time.Unix(1, 2).UTC()},
		{Op: engine.OpCreated, Kind: engine.Container, Request: "a", ID: "c1", Name: "odd \n \" name"},
	}
}

func TestNotesAreReadAsTheyWereWritten(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir).Journal(journalled)
	if _, err := os.Stat(dir + "/" + j.name); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("a file without a note")
	}
	for _, n := range notes() {
		if err := j.Note(n); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	got, err := open(t, dir).Notes(journalled)
	if err != nil || !reflect.DeepEqual(got, notes()) {
		t.Fatalf("read %v, %v", got, err)
	}
	st, err := os.Stat(dir + "/" + j.name)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
}

func TestNoJournalIsNoNotes(t *testing.T) {
	if got, err := open(t, t.TempDir()).Notes(journalled); got != nil || err != nil {
		t.Fatalf("read %v, %v", got, err)
	}
}

// A full disk tears a line. The ones before and after it count, and the reader is told.
func TestATornLineCostsOnlyItself(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir).Journal(journalled)
	n := notes()
	if err := j.Note(n[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(j.fd, []byte(`{"op":"crea`)); err != nil {
		t.Fatal(err)
	}
	j.torn = true
	if err := j.Note(n[1]); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, dir).Notes(journalled)
	if !errors.Is(err, ErrTorn) || !reflect.DeepEqual(got, n) {
		t.Fatalf("read %v, %v", got, err)
	}
	if err := j.Reset(); err != nil {
		t.Error(err)
	}
	if got, err := open(t, dir).Notes(journalled); got != nil || err != nil {
		t.Fatalf("after the reset: %v, %v", got, err)
	}
	j.Close()
}

// A later Journal of the session empties it too, and takes notes after that.
func TestAJournalIsEmptiedByALaterOne(t *testing.T) {
	dir, n := t.TempDir(), notes()
	first, later := open(t, dir).Journal(journalled), open(t, dir).Journal(journalled)
	if err := later.Reset(); err != nil {
		t.Errorf("there is none: %v", err)
	}
	if err := first.Note(n[0]); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := later.Reset(); err != nil {
		t.Error(err)
	}
	if got, err := open(t, dir).Notes(journalled); got != nil || err != nil {
		t.Errorf("after the reset: %v, %v", got, err)
	}
	defer later.Close()
	if err := later.Note(n[1]); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, dir).Notes(journalled); err != nil || !reflect.DeepEqual(got, n[1:]) {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestAJournalIsReplaced(t *testing.T) {
	dir, n := t.TempDir(), notes()
	j := open(t, dir).Journal(journalled)
	defer j.Close()
	for range 9 {
		if err := j.Note(n[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, j.next), []byte("left by another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Replace(n[1:]); err != nil {
		t.Fatal(err)
	}
	if err := j.Note(n[0]); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, dir).Notes(journalled); err != nil || !reflect.DeepEqual(got, []engine.Note{n[1], n[0]}) {
		t.Fatalf("read %v, %v", got, err)
	}
	// A journal that cannot be replaced stays, and takes more notes.
	if err := os.Mkdir(filepath.Join(dir, j.next), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.Replace(nil); err == nil {
		t.Error("replaced through a directory")
	}
	if err := j.Note(n[1]); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, dir).Notes(journalled); err != nil || len(got) != 3 {
		t.Fatalf("read %v, %v", got, err)
	}
}

func TestAJournalThatCannotBeWrittenSaysSo(t *testing.T) {
	gone := t.TempDir() + "/gone"
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	j := open(t, gone).Journal(journalled)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if err := j.Note(notes()[0]); !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
}

func TestASymbolicLinkIsNoJournal(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte(`{"op":"created"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, dir).Journal(journalled)
	if err := os.Symlink(victim, dir+"/"+j.name); err != nil {
		t.Fatal(err)
	}
	if err := j.Note(notes()[0]); !errors.Is(err, unix.ELOOP) {
		t.Errorf("written through a link: %v", err)
	}
	if _, err := open(t, dir).Notes(journalled); !errors.Is(err, unix.ELOOP) {
		t.Errorf("read through a link: %v", err)
	}
}

func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	fd, path, err := Listen(open(t, dir), journalled, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	st, err := os.Stat(path)
	if err != nil || st.Mode() != os.ModeSocket|0o600 || filepath.Dir(path) != dir {
		t.Fatalf("%s: %v, %v", path, st.Mode(), err)
	}
	if err := open(t, dir).RemoveSocket(path, journalled); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is still there")
	}
}

// If a path does not fit into a socket address, or a directory cannot be written to, the socket is made below /tmp.
func TestTheSocketFallsBackBelowTmp(t *testing.T) {
	id := NewID() // another run has the same directory
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "/proc", long} {
		var in *Directory
		if dir != "" {
			in = open(t, dir)
		}
		fd, path, err := Listen(in, id, os.Getuid())
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		if want := "/tmp/mcp-tether-" + strconv.Itoa(os.Getuid()) + "/" + id + ".sock"; path != want {
			t.Errorf("for %q: %s, want %s", dir, path, want)
		}
		if err := in.RemoveSocket(path, id); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Error("the socket is still there")
		}
	}
}

func TestOnlyASessionsSocketIsRemoved(t *testing.T) {
	dir := t.TempDir()
	fd, other, err := Listen(open(t, dir), "fedcba9876543210", os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	file := filepath.Join(dir, journalled+".sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{other, file, "", "/" + journalled + ".sock"} {
		if err := open(t, dir).RemoveSocket(path, journalled); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{other, file} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("removed: %v", err)
		}
	}
}

// A socket without a listener goes, one that is listened on stays, and so does one whose session has a lock.
func TestOnlyDeadSocketsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	const living, locked, young = "00000000000000aa", "00000000000000bb", "00000000000000cc"
	fds := map[string]int{}
	for _, id := range []string{journalled, living, locked, young} {
		fd, path, err := Listen(open(t, dir), id, os.Getuid())
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
	lease, err := open(t, dir).Take(locked)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	unix.Close(fds[journalled])
	unix.Close(fds[locked])
	unix.Close(fds[young])
	defer unix.Close(fds[living])
	if err := open(t, dir).RemoveDeadSockets(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{journalled: false, living: true, locked: true, young: true} {
		if _, err := os.Lstat(dir + "/" + id + ".sock"); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", id, err == nil, want)
		}
	}
}
