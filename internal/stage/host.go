package stage

import (
	"context"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is a command on a machine of its own, as far as it can see: process ids, /proc, /tmp and /run are its own, and the
// cgroup is the root of all (e2e/fixture/host.go). What must be seen there of the old /tmp is to be kept. The host passes
// SIGTERM on, and ends with its command or its standard input. Whatever is on it ends then.
func Host(ctx context.Context, fixture, cgroup string, keep []string, argv ...string) *exec.Cmd {
	words := []string{"host", "cgroup=" + cgroup}
	for _, dir := range keep {
		if strings.HasPrefix(dir, "/tmp/") {
			words = append(words, "keep="+dir)
		}
	}
	cmd := exec.CommandContext(ctx, fixture, append(append(words, "--"), argv...)...)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Setpgid: true}
	return cmd
}
