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

// A record that is written can be read. The command line is for people, the patterns are not.
func TestWriteLongRecord(t *testing.T) {
	dir, id := open(t, t.TempDir()), NewID()
	lease, err := dir.Take(id)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	long := Record{Version: Version, ID: id, Shown: Shown{Args: []string{strings.Repeat("x", proc.MaxRecord)}}, Keeping: Keeping{Keep: []string{"chrome"}}}
	if err := lease.Write(long); err != nil {
		t.Fatal(err)
	}
	if r, err := dir.Read(id); err != nil || len(r.Args) > 0 || len(r.Keep) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	long.Args, long.Keep = nil, []string{""}
	rest, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]error{proc.MaxRecord - 1: nil, proc.MaxRecord: unix.EFBIG} {
		long.Keep[0] = strings.Repeat("x", size-len(rest))
		if err := lease.Write(long); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, err := dir.Read(id); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestLease(t *testing.T) {
	dir, id := t.TempDir(), NewID()
	l, err := open(t, dir).Take(id)
	if err != nil {
		t.Fatal(err)
	}
	// Another open file description of the same process is as foreign as another process.
	if _, err := open(t, dir).Take(id); !errors.Is(err, ErrHeld) {
		t.Errorf("taken twice: %v, want ErrHeld", err)
	}
	if _, err := open(t, dir).Read(id); !errors.Is(err, unix.ENOENT) {
		t.Errorf("read before it was written: %v, want ENOENT", err)
	}
	want := Record{
		Version: Version, ID: id, Shown: Shown{Name: "näme\n\"", Started: time.Unix(1e9, 5).UTC(), Args: []string{"a", ""}}, UID: 1, State: StateRunning,
		Host: proc.Host{Boot: "b", PIDNS: 1<<64 - 1}, Processes: Processes{Gateway: proc.ID{PID: 2, Start: 1<<64 - 1}, Server: proc.ID{PID: 3, Start: 4}, Cgroup: "/c"},
	}
	for _, state := range []string{StateRunning, StateSurvived} {
		want.State = state
		if err := l.Write(want); err != nil {
			t.Fatal(err)
		}
		if got, err := open(t, dir).Read(id); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
	}
	files(t, dir, id+".json")
	if err := l.Remove(); err != nil {
		t.Error(err)
	}
	files(t, dir)
}

// files compares what is in a directory; all of it must be closed to others.
func files(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

// The lease ends with its holder, however that ends, and the record stays to be found.
func TestLeaseFreedByDeath(t *testing.T) {
	dir, id := t.TempDir(), NewID()
	cmd := holder(t, dir, id)
	if _, err := open(t, dir).Take(id); !errors.Is(err, ErrHeld) {
		t.Fatalf("while it lives: %v, want ErrHeld", err)
	}
	if held, err := open(t, dir).Held(id); !held || err != nil {
		t.Errorf("while it lives: held %v, %v", held, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if held, err := open(t, dir).Held(id); held || err != nil {
		t.Errorf("after its death: held %v, %v", held, err)
	}
	l, err := open(t, dir).Take(id)
	if err != nil {
		t.Fatalf("after its death: %v", err)
	}
	if r, err := open(t, dir).Read(id); err != nil || r.State != StateRunning {
		t.Errorf("its record: %+v, %v", r, err)
	}
	l.Release()
	files(t, dir, id+".json")
	if l, err = open(t, dir).Take(id); err != nil {
		t.Fatalf("after Release: %v", err)
	}
	if err := l.Remove(); err != nil {
		t.Error(err)
	}
}

// No server inherits the lock: the session would look alive after the death of its supervisor.
func TestLeaseIsCloseOnExec(t *testing.T) {
	l, err := open(t, t.TempDir()).Take(NewID())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if flags, err := unix.FcntlInt(uintptr(l.fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %x, %v", flags, err)
	}
}

// No link can make us lock or write a file elsewhere.
func TestLeaseFollowsNoLink(t *testing.T) {
	dir, id := t.TempDir(), NewID()
	elsewhere := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(elsewhere, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, dir+"/"+id+".json"); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir).Take(id); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v, want ELOOP", err)
	}
	if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "precious" {
		t.Errorf("the target holds %q, %v", b, err)
	}
}

// Whoever reads a record while it is written gets a whole one, of whatever length.
func TestNoHalfRecordIsRead(t *testing.T) {
	dir, id := open(t, t.TempDir()), NewID()
	l, err := dir.Take(id)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	for i := range 1000 {
		go func() {
			_, err := dir.Read(id)
			read <- err
		}()
		err := l.Write(Record{Version: Version, ID: id, Keeping: Keeping{Keep: []string{strings.Repeat("x", i%3*block)}}})
		if readErr := <-read; err != nil || readErr != nil && !errors.Is(readErr, unix.ENOENT) {
			t.Fatal(err, readErr)
		}
	}
	files(t, dir.Name, id+".json")
}

func TestID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !ValidID(id) || seen[id] {
			t.Fatalf("%q: seen before %v", id, seen[id])
		}
		seen[id] = true
	}
	for _, id := range []string{"", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", "../../../etc/pas", "0123456789abcde/", "0123456789abcde\n"} {
		if ValidID(id) {
			t.Errorf("%q is said to be valid", id)
		}
	}
}

// While a lease is taken, no process sees its lock free: a free lock would be a dead supervisor's.
func TestALockIsNeverSeenFree(t *testing.T) {
	dir := open(t, t.TempDir())
	stop, looked := make(chan struct{}), make(chan int)
	go func() {
		free := 0
		defer func() { looked <- free }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			ids, _ := dir.IDs()
			for _, id := range ids {
				if held, err := dir.Held(id); err == nil && !held {
					free++
				}
			}
		}
	}()
	for range 500 {
		l, err := dir.Take(NewID())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if free := <-looked; free > 0 {
		t.Errorf("%d free locks of living sessions were seen", free)
	}
}

// What a process has left that was killed while it made its record is no obstacle.
func TestAHalfMadeRecordIsNoObstacle(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/"+journalled+".json.tmp", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := open(t, dir).Take(journalled)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	files(t, dir)
}
