package live

import (
	"testing"

	"mcp-tether/internal/session"
)

// A front and the session behind it are one session: the user has started one. What has lost its front, or is behind it no more,
// stays apart.
func TestFold(t *testing.T) {
	of := func(id, behind string, pid int) Session {
		s := Session{Record: session.Record{ID: id}, Procs: pid}
		s.Behind, s.Name, s.Server.PID, s.Sleeps = behind, "of "+id, pid, len(id)
		return s
	}
	for name, c := range map[string]struct {
		all  []Session
		want map[string]int // the server of each id
	}{
		"plain":             {[]Session{of("a", "", 1), of("b", "", 2)}, map[string]int{"a": 1, "b": 2}},
		"awake":             {[]Session{of("f", "", 0), of("a", "f", 1)}, map[string]int{"f": 1}},
		"asleep":            {[]Session{of("f", "", 0)}, map[string]int{"f": 0}},
		"without its front": {[]Session{of("a", "f", 1)}, map[string]int{"a": 1}},
		"an earlier one is still ending": {
			[]Session{of("f", "", 0), of("a", "f", 1), of("b", "f", 2)}, map[string]int{"f": 2, "a": 1},
		},
	} {
		got := fold(c.all)
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v", name, got)
		}
		for _, l := range got {
			if server, ok := c.want[l.ID]; !ok || l.Server.PID != server || l.Procs != server || l.Name != "of "+l.ID {
				t.Errorf("%s: %+v", name, l)
			}
		}
	}
	all := fold([]Session{of("f", "", 0), of("a", "f", 1)})
	if all[0].behind != "a" || all[0].Behind != "" || all[0].Sleeps != 1 {
		t.Errorf("%+v", all[0])
	}
}
