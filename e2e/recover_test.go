package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A supervisor that is killed between fork and exec leaves its lock in the child for a moment. A process that looks
// whether a session lives holds the session's lock for a moment, too. On a busy machine a moment is long. The record
// goes with the session all the same.
func TestRecoveryOutlastsAForeignLock(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{Flags: resisting("--term-grace=6s", "--log-level=debug")}, "serve", "daemon,ignore-term")
	supervisor := s.Supervisor()
	freeze(t, s.PID)
	s.ok(syscall.Kill(supervisor, syscall.SIGKILL))
	stage.AwaitExit(t, supervisor)
	lock, err := os.Open(filepath.Join(s.recordDir(), s.ID()+".json"))
	s.ok(err)
	defer stage.Unlock(lock)
	s.ok(unix.Flock(int(lock.Fd()), unix.LOCK_SH))
	s.ok(syscall.Kill(s.PID, syscall.SIGCONT))
	testkit.Until(t, "a teardown by the anchor", func() bool {
		log, err := os.ReadFile(s.Log)
		return err == nil && strings.Contains(string(log), `"signalled"`)
	})
	stage.Unlock(lock)
	wantExit(t, s.Wait(), "exit 137")
	s.Gone()
	s.EndedWhole("supervisor-gone")
}
