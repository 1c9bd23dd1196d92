package reap

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// A session whose lock was cleaned away is forgotten when its supervisor is dead, and not before.
func TestForgetWithoutLock(t *testing.T) {
	var r proc.Reader
	host, err := r.ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	self, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		host  proc.Host
		start uint64
		want  error
		left  int
	}{
		"living":                   {host: host, start: self.Start, want: session.ErrHeld, left: 2},
		"of another pid namespace": {host: proc.Host{Boot: host.Boot, PIDNS: 1}, start: self.Start, want: session.ErrUnclear, left: 2},
		"dead":                     {host: host, start: self.Start - 1},
	} {
		s := deadSession(t, "", "a")
		s.Host, s.Supervisor = c.host, proc.ID{PID: self.PID, Start: c.start}
		lease, err := s.Dir.Take(deadID)
		if err == nil {
			err = lease.Write(s.Record)
		}
		if err != nil {
			t.Fatal(err)
		}
		lease.Release()
		if err := os.Remove(filepath.Join(s.Dir.Name, deadID+".lock")); err != nil {
			t.Fatal(err)
		}
		err = Forget(filepath.Dir(s.Dir.Name), deadID)
		files, readErr := filepath.Glob(filepath.Join(s.Dir.Name, deadID+".*"))
		if !errors.Is(err, c.want) || readErr != nil || len(files) != c.left {
			t.Errorf("%s: %v, left %v", name, err, files)
		}
	}
}
