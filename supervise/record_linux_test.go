package supervise

import (
	"os"
	"testing"

	"github.com/rs/zerolog"

	"mcp-tether/proc"
	"mcp-tether/session"
)

// A recovering anchor may find no record, because its supervisor was killed before it had written one. The record that it
// then leaves says on which boot it was made: reap takes one that does not for a record of another boot, with nothing alive.
func TestRecordOfARecoverySaysWhere(t *testing.T) {
	here, err := new(proc.Reader).ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{log: zerolog.Nop()}
	s.hand.ID = session.NewID()
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if s.lease, err = dir.Take(s.hand.ID); err != nil {
		t.Fatal(err)
	}
	s.closeRecord(true)
	r, err := dir.Read(s.hand.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r.Host != here {
		t.Errorf("the record is of %+v, want %+v", r.Host, here)
	}
}
