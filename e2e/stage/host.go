package stage

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is a command on a machine of its own, as far as it can see: process ids, /proc, /tmp and /run are its own, and the
// cgroup is the root of all (e2e/fixture/host.go). Of the old /tmp it sees where the programs are, and what is to be kept.
// The host passes SIGTERM on. It ends with its command, or with this process, and then the kernel ends whatever is on it.
func (p Programs) Host(ctx context.Context, cgroup string, keep []string, argv ...string) *exec.Cmd {
	words := []string{"host", "cgroup=" + cgroup}
	for _, dir := range append(keep, filepath.Dir(p.Fixture), filepath.Dir(p.Tether), filepath.Dir(argv[0])) {
		if strings.HasPrefix(dir, "/tmp/") {
			words = append(words, "keep="+dir)
		}
	}
	cmd := exec.CommandContext(ctx, p.Fixture, append(append(words, "--"), argv...)...)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Setpgid: true}
	// Nobody writes to it: its end is that of this process. Without one the host ends at once.
	_, _ = cmd.StdinPipe()
	return cmd
}
