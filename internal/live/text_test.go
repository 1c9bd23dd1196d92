package live

import (
	"strings"
	"testing"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// As a tree, the sessions of a gateway are together below it, and every line of one stands in the same columns. Another user's
// gateway with the same pid, in another namespace, is another one.
func TestLinesAsATree(t *testing.T) {
	one := func(id, name string, gateway, uid int) Session {
		l := Session{GatewayState: "alive", GatewayCommand: "/usr/bin/codex\x1b[2J mcp", Tree: []Process{{PID: 7, Command: []string{"a\x1b]0;x\a", "b"}}}}
		l.ID, l.Name, l.UID, l.State = id, name, uid, session.StateRunning
		l.Gateway = proc.ID{PID: gateway, Start: 1}
		return l
	}
	all := []Session{one("a1", "a", 5, 0), one("b1", "b", 6, 0), one("a2", "a\x1b[31m", 5, 0), one("c1", "c", 5, 1000)}
	var got []string
	column := 0
	for _, l := range linesOf(all, View{Tree: true, Width: 80}) {
		if strings.ContainsAny(l.Text, "\x1b\a\t\n") {
			t.Errorf("control characters: %q", l.Text)
		}
		word, _, _ := strings.Cut(strings.TrimSpace(l.Text), " ")
		got = append(got, word)
		if l.Session != nil && l.Session.ID != word || l.Gateway != (len(word) == 1 && word != "7") {
			t.Errorf("%q is a gateway: %v, session: %v", l.Text, l.Gateway, l.Session)
		}
		at := strings.Index(l.Text, "STATE") + strings.Index(l.Text, "running") + 1
		if column == 0 {
			column = at
		}
		if l.Session != nil && at != column {
			t.Errorf("%q is not in its column", l.Text)
		}
	}
	if want := "SESSION 5 a1 7 a2 7 6 b1 7 5 c1 7"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if flat := linesOf(all, View{}); len(flat) != 5 || flat[2].Session.ID != "b1" { // the control
		t.Errorf("without a tree: %+v", flat)
	}
}
