package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// inShells starts the command below that many shells which do not exec, as npx and npm do.
func inShells(n int) func([]string) []string {
	return func(argv []string) []string {
		for range n {
			quoted := make([]string, len(argv))
			for i, a := range argv {
				quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
			}
			argv = []string{"/bin/sh", "-c", strings.Join(quoted, " ") + "; exit $?"}
		}
		return argv
	}
}

// Orphans that die while the session lives must not pile up as zombies.
func TestOrphansAreReaped(t *testing.T) {
	testkit.Need(t, testkit.Processes)
	t.Parallel()
	s := begin(t, setup{Flags: polite()}, "serve", "orphans=1000", "setsid/orphans=1000")
	supervisor := s.Supervisor()
	testkit.Until(t, "no zombies below the supervisor", func() bool { return zombies(supervisor) == 0 })
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	s.Gone()
	s.EndedWhole("stdin-closed", "server-exited")
}

// leavesOrphans is a helper that a shell starts before it executes mcp-tether: 50 children of it end as orphans, once a line
// has come.
const leavesOrphans = `read line; for n in 1 2 3 4 5; do for m in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.05 &); done; done; echo >"$0/left"; read line`

// A foreign child, and what it leaves, falls to the anchor, which waits for all of them.
func TestOrphansOfForeignChildrenAreReaped(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	gate := filepath.Join(s.Dir, "gate")
	s.ok(syscall.Mkfifo(gate, 0o600))
	script := `/bin/sh -c '` + leavesOrphans + `' "$0" <"$0/gate" 9>&- >/dev/null 2>&1 & echo $! >"$0/foreign"; exec "$@"`
	argv := append([]string{"/bin/sh", "-c", script, s.Dir}, s.Wrap(polite(), node(s.Dir, "serve")...)...)
	s.Spawn(setup{Bare: true}, argv...)
	w := openGate(t, gate)
	defer w.Close()
	s.WaitReady()
	say := func() { _, err := w.WriteString("\n"); s.ok(err) }
	say()
	testkit.Until(t, "the orphans", func() bool { _, err := os.Stat(filepath.Join(s.Dir, "left")); return err == nil })
	testkit.Until(t, "no child but the supervisor and the helper", func() bool { return len(childrenOf(s.PID)) == 2 })
	say()
	testkit.Until(t, "no child but the supervisor", func() bool { return len(childrenOf(s.PID)) == 1 })
	if answer := s.Ask(`{"id":9,"method":"ping"}`); !strings.Contains(answer, `"id":9`) {
		t.Errorf("answer %q", answer)
	}
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	s.Gone()
}

func zombies(parent int) int {
	return len(slices.DeleteFunc(childrenOf(parent), func(pid int) bool { return stage.Describe(pid).State != "Z" }))
}
