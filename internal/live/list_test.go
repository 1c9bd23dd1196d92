package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// What cleans /tmp by age may take the lock of a living session. The session is listed all the same, and waited for.
func TestListWithoutLock(t *testing.T) {
	var r proc.Reader
	here, err := r.ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	self, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for start, living := range map[uint64]bool{self.Start: true, self.Start - 1: false} {
		id := session.NewID()
		lease, err := dir.Take(id)
		if err != nil {
			t.Fatal(err)
		}
		err = lease.Write(session.Record{Version: session.Version, ID: id, Host: here, UID: os.Getuid(), Supervisor: proc.ID{PID: self.PID, Start: start}})
		if err != nil {
			t.Fatal(err)
		}
		lease.Release()
		if err := os.Remove(filepath.Join(dir.Name, id+".lock")); err != nil {
			t.Fatal(err)
		}
		var unread []string
		all, err := List([]*session.Directory{dir}, func(what string) { unread = append(unread, what) })
		if listed := len(all) == 1 && all[0].ID == id; err != nil || len(unread) > 0 || listed != living || !living && len(all) > 0 {
			t.Errorf("living %v: %+v, %q, %v", living, all, unread, err)
		}
		if got := StopListed([]*session.Directory{dir}, nil, []string{id}, 0)[0]; got.Ended || strings.HasPrefix(got.Error, "still ending") != living {
			t.Errorf("living %v: %+v", living, got)
		}
		if err := os.Remove(filepath.Join(dir.Name, id+".json")); err != nil {
			t.Fatal(err)
		}
	}
}

// A session that lives, or may, and cannot be read is named. One that has just begun, or is over, is not.
func TestListUnread(t *testing.T) {
	const later = `{"version":2}`
	for name, c := range map[string]struct {
		record       string
		held, locked bool
		want         int
	}{
		"damaged":               {record: "{", held: true, locked: true, want: 1},
		"of a later version":    {record: later, held: true, locked: true, want: 1},
		"damaged, without lock": {record: "{", want: 1},
		"just begun":            {held: true, locked: true},
		"damaged and dead":      {record: "{", locked: true},
		"over":                  {},
	} {
		dir, err := session.Open(os.Getuid(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		id := session.NewID()
		lease, err := dir.Take(id)
		if err != nil {
			t.Fatal(err)
		}
		if c.record != "" {
			if err := os.WriteFile(filepath.Join(dir.Name, id+".json"), []byte(c.record), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if !c.locked {
			if err := os.Remove(filepath.Join(dir.Name, id+".lock")); err != nil {
				t.Fatal(err)
			}
		}
		if c.held {
			defer lease.Release()
		} else {
			lease.Release()
		}
		var unread []string
		all, err := List([]*session.Directory{dir}, func(what string) { unread = append(unread, what) })
		if err != nil || len(all) > 0 || len(unread) != c.want || c.want > 0 && !strings.Contains(unread[0], id) {
			t.Errorf("%s: %+v, %q, %v", name, all, unread, err)
		}
	}
}
