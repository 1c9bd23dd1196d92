package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A cgroup that was handed over to a user is used by that user, and ends what the user alone could not kill.
func TestDelegatedCgroup(t *testing.T) {
	testkit.Need(t, testkit.Root)
	t.Parallel()
	name := setuidCopy(t)
	w := world{steps: []string{"cgroup=" + delegate(t)}, uid: nobody}
	s := w.gateway(t).tree(setup{Flags: resisting("--cgroup=require")}, "serve", "daemon", "setsid,setuid,comm="+name)
	s.WaitReady()
	s.gw.Kill()
	s.Gone()
	s.EndedWhole(deathCauses...)
}

// delegate makes a cgroup and hands it over, as systemd does.
func delegate(t *testing.T) string {
	t.Helper()
	dir := needCgroup(t)
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		ok(t, os.Chown(filepath.Join(dir, name), nobody, nobody))
	}
	return dir
}

// needCgroup makes a cgroup below our own for the time of the test.
func needCgroup(t *testing.T) string {
	t.Helper()
	own, err := stage.WritableCgroup()
	dir := filepath.Join(own, fmt.Sprintf("e2e-%d-%d", os.Getpid(), time.Now().UnixNano()))
	testkit.Lacks(t, testkit.Cgroup, !(err == nil && os.Mkdir(dir, 0o755) == nil), "a cgroup v2 that can be written")
	t.Cleanup(func() { removeCgroup(t, dir) })
	return dir
}

// removeCgroup waits until the kernel has let go of the last process: cgroup.events polls as an exception when it has.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	events, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		t.Error(err)
		return
	}
	defer events.Close()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); {
		if err = os.Remove(dir); err == nil {
			return
		}
		_, _ = events.ReadAt(make([]byte, 128), 0)
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, 100)
	}
	t.Error(err)
}
