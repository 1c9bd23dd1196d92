package supervise

import (
	"os"
	"testing"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// The anchor of a killed supervisor may find no record, because its supervisor was killed before it had written one. The record that
// it then leaves says on which boot it was made. If it did not, reap would take it for a record of another boot, with
// nothing alive.
func TestRecordOfARecoverySaysWhere(t *testing.T) {
	here, err := new(proc.Reader).ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	s := recorded(t)
	s.closeRecord(&remains{leaked: true})
	r, err := s.lease.Dir().Read(s.id)
	if err != nil {
		t.Fatal(err)
	}
	if r.Host != here {
		t.Errorf("the record is of %+v, want %+v", r.Host, here)
	}
}

// recorded is a session that has a lease, in a directory of its own.
func recorded(t *testing.T) *Session {
	t.Helper()
	s := &Session{}
	s.id = session.NewID()
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if s.lease, err = dir.Take(s.id); err != nil {
		t.Fatal(err)
	}
	return s
}
