//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// What shares a server is no finding while it lives. Once all of it is killed at once, what the server has started is found
// and ended, and the files of the host go.
func TestShareAndReap(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := share(t)
	s.command = append(s.command, "daemon", "setsid,closefds,clearenv")
	a, b := s.client(), s.client()
	a.echo()
	b.echo()
	by := caller{runtime: s.runtime}
	match := "--match=" + filepath.Base(fixture)
	if r := by.reap(t, -1, match, "--unwrapped", "--dwell=1ms"); len(r.Findings) != 0 {
		t.Errorf("living sessions are findings: %v", r.Findings)
	}
	for _, p := range s.with(tether + "\x00") {
		kill(t, p.pid, unix.SIGKILL)
	}
	testkit.Until(t, "ours are dead", func() bool { return len(s.with("^"+tether+"\x00")) == 0 })
	old := time.Now().Add(-time.Hour)
	for _, f := range s.files() {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	// The kernel takes the memory of a dying process, and with it the command line, before it lets go of the locks.
	testkit.Until(t, "reap finds the dead session", func() bool { return by.reap(t, -1, "--kill").classes() == "record" })
	testkit.Until(t, "the server's daemon is dead", func() bool { return len(s.processes()) == 0 })
	left := s.files()
	for _, f := range left {
		if filepath.Base(f) != "reap.lock" {
			t.Errorf("%s is left", f)
		}
	}
}
