package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A supervisor that is killed between fork and exec leaves its lock in the child for a moment. A process that looks
// whether a session lives holds the session's lock for a moment, too. On a busy machine a moment is long. The record
// goes with the session all the same.
func TestRecoveryOutlastsAForeignLock(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: resisting("--term-grace=6s", "--log-level=debug")}, "serve", "daemon,ignore-term")
	supervisor := s.supervisor()
	freeze(t, s.pid)
	s.ok(syscall.Kill(supervisor, syscall.SIGKILL))
	awaitExit(t, supervisor)
	lock, err := os.Open(filepath.Join(s.recordDir(), s.id()+".lock"))
	s.ok(err)
	defer unlock(lock)
	s.ok(unix.Flock(int(lock.Fd()), unix.LOCK_SH))
	s.ok(syscall.Kill(s.pid, syscall.SIGCONT))
	testkit.Until(t, "a teardown by the anchor", func() bool {
		log, err := os.ReadFile(s.log)
		return err == nil && strings.Contains(string(log), `"signalled"`)
	})
	unlock(lock)
	wantExit(t, s.wait(), "exit 137")
	s.gone()
	s.endedWhole("supervisor-gone")
}
