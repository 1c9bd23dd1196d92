package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/teardown"
)

// leavesDaemon stands for a command of ours that leaves something behind in its own session (setsid(2)), without our environment.
const leavesDaemon = `#!/bin/sh
(env -i /bin/sh -c 'echo $$ >"%[1]s.new"; mv "%[1]s.new" "%[1]s"; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
exec cat
`

// adoptOrphans makes us a subreaper until the end of the test.
func adoptOrphans(t *testing.T) {
	t.Helper()
	if err := proc.BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// leaveDaemon makes us a subreaper, and puts such a command into PATH, under the name docker. The pid of its daemon is in the file daemon of
// dir.
func leaveDaemon(t *testing.T) (dir string) {
	t.Helper()
	adoptOrphans(t)
	dir = t.TempDir()
	testkit.WriteProgram(t, filepath.Join(dir, "docker"), fmt.Appendf(nil, leavesDaemon, filepath.Join(dir, "daemon")))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// daemonIn is the process that has written its pid to a file. It is ended with the test.
func daemonIn(t *testing.T, file string) proc.ID {
	t.Helper()
	var (
		st  proc.Stat
		pid int
		r   proc.Reader
	)
	testkit.Until(t, "the daemon has executed sleep", func() bool {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(b), &pid)
		if err == nil {
			st, err = r.Stat(pid)
		}
		return err == nil && st.Comm == "sleep"
	})
	t.Cleanup(func() {
		_ = r.Signal(st.ID, unix.SIGKILL)
		testkit.Until(t, "the end of the daemon", func() bool {
			_, _ = proc.Reap(func(int, unix.WaitStatus) {})
			_, err := r.Stat(pid)
			return err != nil
		})
	})
	return st.ID
}

func expectMembers(t *testing.T, s *teardown.Membership, when string, want []int) {
	t.Helper()
	members, kept, err := s.Members()
	got := []int{}
	for _, m := range members {
		got = append(got, m.PID)
	}
	if err != nil || len(kept) > 0 || !slices.Equal(got, want) {
		t.Errorf("%s: members %v, kept %v, %v; want %v", when, members, kept, err, want)
	}
}
