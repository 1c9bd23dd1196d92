package live

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-tether/internal/session"
)

// A session that lives, or may, and cannot be read is named. One that has just begun, or is over, is not.
func TestListUnread(t *testing.T) {
	const later = `{"version":3}`
	for name, c := range map[string]struct {
		record string
		held   bool
		want   int
	}{
		"damaged":            {record: "{", held: true, want: 1},
		"of a later version": {record: later, held: true, want: 1},
		"just begun":         {held: true},
		"damaged and dead":   {record: "{"},
		"over":               {},
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
		if c.held {
			defer lease.Release()
		} else {
			lease.Release()
		}
		var unread []string
		stored, dirs, left := session.ReadAll(filepath.Dir(dir.Name))
		defer session.CloseAll(dirs)
		stored = slices.DeleteFunc(stored, func(s session.Stored) bool { return s.ID != id })
		all, err := list(stored, func(what string) { unread = append(unread, what) })
		if err != nil || left != nil || len(all) > 0 || len(unread) != c.want || c.want > 0 && !strings.Contains(unread[0], id) {
			t.Errorf("%s: %+v, %q, %v", name, all, unread, err)
		}
	}
}
