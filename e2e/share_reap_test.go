package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// Sessions that share a server are no finding while they live. Once all of their processes are killed at once, what the
// server has started is found and ended, and the files of the host go.
func TestShareAndReap(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := share(t)
	s.command = append(s.command, "daemon", "setsid,closefds,clearenv")
	a, b := s.client(), s.client()
	a.echo()
	b.echo()
	by := caller{runtime: s.Runtime}
	match := "--match=" + filepath.Base(fixture)
	if r := by.reap(t, -1, match, "--unwrapped"); len(r.Findings) != 0 {
		t.Errorf("living sessions are findings: %v", r.Findings)
	}
	// None of them gets to see that another one has died. The anchor continues a stopped supervisor, so that goes first.
	supervisor, ours := s.supervisor(), s.with("^"+tether+"\x00")
	for _, p := range ours {
		kill(t, p.PID, unix.SIGSTOP)
	}
	kill(t, supervisor, unix.SIGKILL)
	for _, p := range ours {
		_ = unix.Kill(p.PID, unix.SIGKILL)
	}
	testkit.Until(t, "ours are dead", func() bool { return len(s.with("^"+tether+"\x00")) == 0 })
	old := time.Now().Add(-time.Hour)
	for _, f := range s.files() {
		ok(t, os.Chtimes(f, old, old))
	}
	leaked := len(s.with()) > 0
	var seen []string
	testkit.Until(t, "reap has ended what was left", func() bool {
		if found := by.reap(t, -1, "--kill").classes(); found != "" {
			seen = append(seen, found)
		}
		// The kernel takes the memory of a dying process, and with it the command line, before it lets go of the locks.
		left := slices.DeleteFunc(s.files(), func(f string) bool { return slices.Contains([]string{"reap.lock", "sweep.lock"}, filepath.Base(f)) })
		return len(s.with()) == 0 && len(left) == 0
	})
	t.Logf("leaked: %v, findings: %q", leaked, seen)
	if leaked && len(seen) == 0 {
		t.Error("what leaked was no finding")
	}
}
