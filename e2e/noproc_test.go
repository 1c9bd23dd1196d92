//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Without /proc there are no descendants to be seen and no file to execute again. What cannot be promised is refused,
// or admitted in the end.

func TestNoProc(t *testing.T) {
	t.Parallel()
	s := world{steps: []string{"noproc"}}.gateway(t).newSession()
	s.spawn(setup{}, "/bin/sh", "-c", "echo started >"+filepath.Join(s.dir, "notes"))
	wantExit(t, s.wait(), "exit 125")
	s.gone()
	if said, _ := os.ReadFile(s.stderr); !strings.Contains(string(said), "/proc") || s.notes() != "" {
		t.Errorf("stderr: %q, the server noted %q", said, s.notes())
	}
}

// One process can do without, as long as the server's tree stays in the server's process group.
func TestNoProcNoAnchor(t *testing.T) {
	for _, e := range []ending{endings[0], endings[1], endings[2]} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			g := world{steps: []string{"noproc"}}.gateway(t)
			s := g.tree(setup{flags: quick("--no-anchor", "--log-level=debug")}, "serve", "plain*3", "plain/plain")
			s.waitReady()
			e.end(s)
			s.gone()
			s.endedWhole(e.causes...)
			s.wantDegraded("/proc")
		})
	}
}

// Whoever left that group is not seen, but that somebody is left is known.
func TestNoProcIsHonest(t *testing.T) {
	t.Parallel()
	g := world{steps: []string{"noproc"}}.gateway(t)
	s := g.tree(setup{flags: quick("--no-anchor", "--kill-timeout=300ms")}, "serve", "setsid,ignore-term")
	s.waitReady()
	s.signal(syscall.SIGTERM)
	wantExit(t, s.wait(), "exit 143")
	if c := s.ended(); s.alive() && !*c.Leaked {
		t.Errorf("a process is left, and the log says: survivors = %v, leaked = %v", c.Survivors, *c.Leaked)
	}
	s.endAll()
}

// The same where another user's process is hidden.
func TestHiddenSurvivor(t *testing.T) {
	need(t, os.Geteuid() == 0, "root")
	t.Parallel()
	name := setuidCopy(t)
	g := world{steps: []string{"hidepid"}, uid: nobody}.gateway(t)
	s := g.tree(setup{flags: quick("--kill-timeout=300ms")}, "serve", "setsid,setuid,comm="+name, "daemon")
	s.waitReady()
	s.signal(syscall.SIGTERM)
	wantExit(t, s.wait(), "exit 143")
	if left := holders(s.life.path); len(left) != 1 {
		t.Fatalf("left: %v, want the one of another user", left)
	}
	if c := s.ended(); !*c.Leaked {
		t.Errorf("a process is left, and the log says: survivors = %v, leaked = %v", c.Survivors, *c.Leaked)
	}
	if got := s.records(); len(got) != 1 {
		t.Errorf("records = %v, want the session's, for a later sweep", got)
	}
	s.endAll()
}
