package supervise

import (
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// One line says what was ended beside the server, and what was kept.
func TestWords(t *testing.T) {
	fate := func(pid int, command, what string) session.Fate {
		return session.Fate{ID: proc.ID{PID: pid, Start: 1}, Command: command, What: what}
	}
	kept := []session.Fate{fate(7, "redis *:1", "kept: in use by 9 shim"), fate(8, "firefox", "kept: a browser")}
	sent := func(pid int, sig unix.Signal) teardown.Sent {
		return teardown.Sent{To: proc.Stat{ID: proc.ID{PID: pid}, Comm: "sh\x1b"}, Sig: sig}
	}
	for _, c := range []struct {
		sent []teardown.Sent
		kept []session.Fate
		want string
	}{
		{nil, nil, ""},
		{[]teardown.Sent{sent(1, unix.SIGTERM)}, nil, ""}, // the server alone
		{nil, kept[:1], "mcp-tether: kept 7 redis *:1 (in use by 9 shim)\n"},
		{[]teardown.Sent{sent(1, unix.SIGTERM)}, kept, "mcp-tether: kept 7 redis *:1 (in use by 9 shim) and 1 more\n"},
		{[]teardown.Sent{sent(2, unix.SIGKILL)}, kept[:1], "mcp-tether: ended 1 process beside the server, 1 by SIGKILL: sh?; kept 7 redis *:1 (in use by 9 shim)\n"},
		{[]teardown.Sent{sent(2, unix.SIGTERM), sent(3, unix.SIGTERM)}, nil, "mcp-tether: ended 2 processes beside the server: sh?\n"},
	} {
		var tl tally
		tl.add(c.sent, 1)
		ended, killed := tl.count(nil)
		if got := tl.words(ended, killed, 1, wordsOfKept(c.kept)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Of what was killed a bounded number is named, and not what has survived.
func TestFates(t *testing.T) {
	tr := &tree{common: &common{}}
	for pid := 100; pid < 100+2*maxFates; pid++ {
		p := proc.Stat{ID: proc.ID{PID: pid, Start: 1}, Comm: "sleep"}
		if len(tr.doomed) < maxFates {
			tr.doomed = append(tr.doomed, session.FateOf(p, []string{"sleep", "--token", "abc"}, session.Killed))
		}
		tr.tally.add([]teardown.Sent{{To: p, Sig: unix.SIGKILL}}, 1)
	}
	r := remains{survivors: []teardown.Survivor{{PID: 101, Comm: "sleep", Why: "state D"}, {PID: 999, Comm: "late", Why: "late"}}}
	tr.tally.count(r.survivors)
	all := tr.fates(&r)
	if len(all) != maxFates+1 {
		t.Fatalf("%d are named", len(all))
	}
	for _, f := range all[:maxFates-1] {
		if f.What != session.Killed || f.PID == 101 || f.Command != "sleep --token [redacted]" {
			t.Errorf("%+v", f)
		}
	}
	if f := all[maxFates-1]; f.PID != 101 || f.What != "left: state D" || f.Start == 0 {
		t.Errorf("%+v", f)
	}
	if f := all[maxFates]; f.PID != 999 || f.What != "left: late" || f.Command != "[late]" {
		t.Errorf("%+v", f)
	}
}
