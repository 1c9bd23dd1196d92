package supervise

import (
	"os"
	"testing"
	"time"

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
	r, err := s.lease.Dir().Read(s.hand.id)
	if err != nil {
		t.Fatal(err)
	}
	if r.Host != here {
		t.Errorf("the record is of %+v, want %+v", r.Host, here)
	}
}

// A state that could not be written is written once there is room: the next session of the key waits only for one whose
// record says that it ends. Nobody waits for that, and nothing spins.
func TestRecordIsWrittenOnceThereIsRoom(t *testing.T) {
	s := recorded(t)
	s.opts.Key, s.tree = "k", &tree{common: &s.common}
	s.writeRecord(s.state())
	lease := s.lease
	s.lease = lease.Dir().Adopt(s.hand.id, -1) // no file to write to
	s.cause = session.CauseSignal
	s.writeRecord(s.state())
	if wait := s.timeout(s.rewriteAt.Add(-endingPause)); wait != endingPause {
		t.Errorf("it is written again after %v, want %v", wait, endingPause)
	}
	past := time.Now().Add(-time.Hour)
	s.rewriteAt = past
	if s.onTime(time.Now()); !s.rewriteAt.After(past) {
		t.Errorf("it failed again, and is next written at %v", s.rewriteAt)
	}
	s.lease = lease
	s.onTime(s.rewriteAt)
	r, err := s.lease.Dir().Read(s.hand.id)
	if next := (&common{opts: s.opts}); err != nil || !next.follows(r) || r.Cause != string(s.cause) {
		t.Errorf("the record says %q (%s), %v", r.State, r.Cause, err)
	}
	if wait := s.timeout(time.Now()); wait >= 0 {
		t.Errorf("it is written once more, after %v", wait)
	}
}

// recorded is a session that has a lease, in a directory of its own.
func recorded(t *testing.T) *Session {
	t.Helper()
	s := &Session{}
	s.hand.id = session.NewID()
	dir, err := session.Open(os.Getuid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if s.lease, err = dir.Take(s.hand.id); err != nil {
		t.Fatal(err)
	}
	return s
}
