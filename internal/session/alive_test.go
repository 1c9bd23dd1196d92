package session

import (
	"errors"
	"os"
	"testing"

	"mcp-tether/internal/proc"
)

// Without its lock a session lives as long as its supervisor or anchor does. Nothing is said of what cannot be looked for.
func TestAliveWithoutLock(t *testing.T) {
	var r proc.Reader
	here, err := r.ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	self, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := proc.ID{PID: self.PID, Start: self.Start - 1}
	for name, c := range map[string]struct {
		host               proc.Host
		supervisor, anchor proc.ID
		alive              bool
		err                error
	}{
		"living":                   {here, self.ID, proc.ID{}, true, nil},
		"dead":                     {here, gone, proc.ID{}, false, nil},
		"dead, with its anchor":    {here, gone, gone, false, nil},
		"about to be recovered":    {here, gone, self.ID, true, nil},
		"of no known supervisor":   {here, proc.ID{}, gone, true, ErrUnclear},
		"of another boot":          {proc.Host{Boot: "old", PIDNS: here.PIDNS}, self.ID, proc.ID{}, false, nil},
		"of another pid namespace": {proc.Host{Boot: here.Boot, PIDNS: 1}, gone, proc.ID{}, true, ErrUnclear},
		"of no known boot":         {proc.Host{}, gone, proc.ID{}, true, ErrUnclear},
	} {
		dir, id := open(t, t.TempDir()), NewID()
		lease, err := dir.Take(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Write(Record{Version: Version, ID: id, Host: c.host, Supervisor: c.supervisor, Anchor: c.anchor}); err != nil {
			t.Fatal(err)
		}
		if alive, err := dir.Alive(id); !alive || err != nil {
			t.Errorf("%s, with its lock: %v, %v", name, alive, err)
		}
		lease.Release()
		if alive, err := dir.Alive(id); alive || err != nil {
			t.Errorf("%s, with a free lock: %v, %v", name, alive, err)
		}
		if err := dir.at.Unlink(file(id, lockSuffix)); err != nil {
			t.Fatal(err)
		}
		if alive, err := dir.Alive(id); alive != c.alive || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", name, alive, err)
		}
		if err := dir.at.Unlink(file(id, recordSuffix)); err != nil {
			t.Fatal(err)
		}
		if alive, err := dir.Alive(id); alive || !errors.Is(err, ErrNoLock) {
			t.Errorf("%s, without its record: %v, %v", name, alive, err)
		}
	}
}
