package session

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Bad records prove nothing: each is an error, and none is followed elsewhere.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	const id = "0123456789abcdef"
	good := `{"version":2,"id":"` + id + `","state":"running"}` + "\n"
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(content string) func(name string) error {
		return func(name string) error { return os.WriteFile(name, []byte(content), 0o600) }
	}
	for what, put := range map[string]func(name string) error{
		"symbolic link":  func(name string) error { return os.Symlink(elsewhere, name) },
		"empty":          write(""),
		"huge":           write(good + strings.Repeat(" ", proc.MaxRecord)),
		"truncated":      write(good[:len(good)-3]),
		"no JSON":        write("running\n"),
		"null":           write("null"),
		"old version":    write(strings.Replace(good, `"version":2`, `"version":1`, 1)),
		"future version": write(strings.Replace(good, `"version":2`, `"version":3`, 1)),
		"no version":     write(strings.Replace(good, `"version":2,`, ``, 1)),
		"version string": write(strings.Replace(good, `"version":2`, `"version":"2"`, 1)),
		"other id":       write(strings.Replace(good, id, "ffffffffffffffff", 1)),
		"no id":          write(`{"version":2}`),
		"odd pid":        write(strings.Replace(good, `"state"`, `"server":{"pid":"1"},"state"`, 1)),
		"pid overflows":  write(strings.Replace(good, `"state"`, `"server":{"pid":99999999999999999999},"state"`, 1)),
		"start negative": write(strings.Replace(good, `"state"`, `"server":{"pid":1,"start":-1},"state"`, 1)),
	} {
		name := dir + "/" + id + ".json"
		if err := put(name); err != nil {
			t.Fatal(what, err)
		}
		if r, err := open(t, dir).Read(id); err == nil || !reflect.DeepEqual(r, Record{}) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open(t, dir).Read(id); !errors.Is(err, unix.ENOENT) {
		t.Errorf("none: %v, want ENOENT", err)
	}
	if err := write(good)(dir + "/" + id + ".json"); err != nil {
		t.Fatal(err)
	}
	if r, err := open(t, dir).Read(id); err != nil || r.State != StateRunning {
		t.Errorf("the good one: %+v, %v", r, err)
	}
}

// A torn record is read again while its lease is held, and so perhaps being written. Nobody waits for thousands of damaged ones.
func TestReadTorn(t *testing.T) {
	dir := open(t, t.TempDir())
	read := func(held bool) time.Duration {
		id := NewID()
		l, err := dir.Take(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir.Name+"/"+file(id, recordSuffix), []byte(`{"version":`), 0o600); err != nil {
			t.Fatal(err)
		}
		if held {
			defer l.Release()
		} else {
			l.Release()
		}
		began := time.Now()
		if _, err := dir.Read(id); err == nil {
			t.Error("a torn record was read")
		}
		took := time.Since(began)
		_ = dir.at.Unlink(file(id, recordSuffix))
		return took
	}
	if took := read(true); took < tornTime {
		t.Errorf("held: given up after %v", took)
	}
	const many = 500
	var all time.Duration
	for range many {
		all += read(false)
	}
	if all >= many*tornTime {
		t.Errorf("%d that nobody holds took %v", many, all)
	}
}

// However many of the living have a torn record, one that is being written is read in the end, and all take little longer than one.
func TestReadAllTorn(t *testing.T) {
	runtime := t.TempDir()
	dir, err := Open(os.Getuid(), runtime)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	torn := map[string]bool{}
	var last *Lease
	for range int(proc.FilesTime/tornTime) + 2 {
		id := NewID()
		if last, err = dir.Take(id); err != nil {
			t.Fatal(err)
		}
		defer last.Release()
		if _, err := unix.Pwrite(last.fd, []byte(`{"version":`), 0); err != nil {
			t.Fatal(err)
		}
		torn[id] = true
	}
	delete(torn, last.id)
	written := make(chan error)
	go func() {
		<-time.After(tornTime / 10)
		written <- last.Write(Record{Version: Version, ID: last.id})
	}()
	all, dirs, left := ReadAll(runtime)
	CloseAll(dirs)
	if err := errors.Join(append(left, <-written)...); err != nil {
		t.Fatal(err)
	}
	isRead := false
	for _, s := range all {
		isRead = isRead || s.ID == last.id && s.Unread == nil && s.Version == Version
		if torn[s.ID] && s.Held && s.Unread != nil {
			delete(torn, s.ID)
		}
	}
	if !isRead || len(torn) > 0 {
		t.Errorf("the one that was written is read: %v; of the others %d are missing", isRead, len(torn))
	}
}

// FuzzParse compares a record with its round trip through encoding/json.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":2,"id":"x","args":["a"],"server":{"pid":1,"start":2}}`))
	f.Add([]byte(`{"version":2,"ID":"x","started":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parse(b, "name", "x")
		if err != nil {
			return
		}
		if r.Version != Version || r.ID != "x" {
			t.Fatalf("%q: %+v", b, r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%q cannot be written again: %v", b, err)
		}
		if r2, err := parse(again, "name", "x"); err != nil || !reflect.DeepEqual(r2, r) {
			t.Fatalf("%q: %+v, then %+v, %v", b, r, r2, err)
		}
	})
}
