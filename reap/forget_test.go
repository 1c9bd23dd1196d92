package reap

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mcp-tether/internal/delegate"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// What one user had of an id says nothing of another user's session.
func TestForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		codes []int
		left  int
		want  error
	}{
		"removed":                         {codes: []int{0, CodeNoRecord}},
		"nobody has it":                   {codes: []int{CodeNoRecord, CodeNoRecord}, want: ErrNoRecord},
		"held":                            {codes: []int{CodeNoRecord, CodeHeld}, want: session.ErrHeld},
		"a forgery, and one held":         {codes: []int{0, CodeHeld}, want: session.ErrHeld},
		"one held, and a forgery":         {codes: []int{CodeHeld, 0}, want: session.ErrHeld},
		"a forgery, and one not known":    {codes: []int{0, -1}, want: errNotKnown},
		"not known":                       {codes: []int{CodeNoRecord, 2}, want: errNotKnown},
		"a forgery, and more to be asked": {codes: []int{0, CodeNoRecord}, left: 1, want: delegate.ErrTooMany},
	} {
		all := []delegate.Answer[int]{{By: delegate.User{Name: "a"}, Said: c.codes[0]}, {By: delegate.User{Name: "b"}, Said: c.codes[1]}}
		if err := forgotten(deadID, all, c.left); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

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
