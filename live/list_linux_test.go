package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/proc"
	"mcp-tether/session"
)

// What cleans /tmp by age may take the lock of a living session. The session is listed all the same, and waited for.
func TestListWithoutLock(t *testing.T) {
	var r proc.Reader
	host, err := r.ReadHost()
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
		err = lease.Write(session.Record{Version: session.Version, ID: id, Host: host, UID: os.Getuid(), Supervisor: proc.ID{PID: self.PID, Start: start}})
		if err != nil {
			t.Fatal(err)
		}
		lease.Release()
		if err := os.Remove(filepath.Join(dir.Name, id+".lock")); err != nil {
			t.Fatal(err)
		}
		all, err := List([]*session.Directory{dir})
		if listed := len(all) == 1 && all[0].ID == id; err != nil || listed != living || !living && len(all) > 0 {
			t.Errorf("living %v: %+v, %v", living, all, err)
		}
		if got := StopListed([]*session.Directory{dir}, nil, []string{id}, 0)[0]; got.Ended || strings.HasPrefix(got.Error, "still ending") != living {
			t.Errorf("living %v: %+v", living, got)
		}
		if err := os.Remove(filepath.Join(dir.Name, id+".json")); err != nil {
			t.Fatal(err)
		}
	}
}
