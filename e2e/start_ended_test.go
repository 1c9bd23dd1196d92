package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// A session that ends while it starts leaves nothing, neither process nor file nor cgroup: by a signal, or because one of its
// processes is killed. The control is the last round, in which nothing happens: its files are there as long as it lives.
func TestEndedWhileItStarts(t *testing.T) {
	t.Parallel()
	from := newSeed(t)
	victims := map[string]func(anchor int) []int{
		"signal":     func(anchor int) []int { return []int{anchor} },
		"supervisor": childrenOf,
		"starter": func(anchor int) (all []int) {
			for _, supervisor := range childrenOf(anchor) {
				all = append(all, childrenOf(supervisor)...)
			}
			return all
		},
	}
	for name, victim := range victims {
		t.Run(name, func(t *testing.T) {
			for range testkit.Rounds(30) {
				cmd, dir := startsSleeping(t)
				pause(from.between(0, 8*time.Millisecond))
				sig := unix.SIGKILL
				if name == "signal" {
					sig = unix.SIGTERM
				}
				for _, pid := range victim(cmd.Process.Pid) {
					_ = unix.Kill(pid, sig)
				}
				_ = cmd.Process.Signal(syscall.SIGTERM)
				_ = cmd.Wait()
				if left := filesIn(dir); left != "" {
					t.Fatalf("left: %s", left)
				}
			}
			cmd, dir := startsSleeping(t)
			testkit.Until(t, "the record", func() bool { return strings.Contains(filesIn(dir), ".json") })
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		})
	}
}

// startsSleeping starts a session whose server sleeps, with a runtime directory of its own.
func startsSleeping(t *testing.T) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd = exec.Command(tether, "run", "--no-history", "--containers=off", "--", "/bin/sleep", "1000")
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	_, err := cmd.StdinPipe()
	noError(t, err)
	noError(t, cmd.Start())
	return cmd, dir
}

func filesIn(dir string) string {
	names, _ := filepath.Glob(filepath.Join(dir, "mcp-tether", "*"))
	return strings.Join(names, " ")
}
