package testkit

import (
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Keeper starts a shell in a cgroup, of which that is a descriptor. launch has the shell start a child, whose pid it returns. end
// ends both, and fails the test if a signal has ended the shell before. It is called at the end of the test at the latest.
func Keeper(t testing.TB, cgroup int) (pid int, launch func() (child int), end func()) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read go || exit 0; sleep 300 & echo $!; read go")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: cgroup}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	started := 0
	end = sync.OnceFunc(func() {
		if started > 0 {
			_ = unix.Kill(started, unix.SIGKILL)
		}
		_ = in.Close()
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
			t.Errorf("the shell: %v", err)
		}
	})
	t.Cleanup(end)
	return cmd.Process.Pid, func() int {
		t.Helper()
		_, err := fmt.Fprintln(in)
		if err == nil {
			_, err = fmt.Fscan(out, &started)
		}
		if err != nil {
			t.Fatal(err)
		}
		return started
	}, end
}
