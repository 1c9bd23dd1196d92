package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/internal/testkit"
)

// leavesDaemon stands for a docker command that leaves something behind in its own session (setsid(2)), without our environment.
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

// leaveDaemon makes us a subreaper, and puts such a docker command into PATH. The pid of its daemon is in the file daemon of
// dir.
func leaveDaemon(t *testing.T) (dir string) {
	t.Helper()
	adoptOrphans(t)
	dir = t.TempDir()
	testkit.WriteProgram(t, filepath.Join(dir, "docker"), fmt.Appendf(nil, leavesDaemon, filepath.Join(dir, "daemon")))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// The daemon is nobody's member, as long as its helper lives and afterwards. An orphan of the server is one, though it looks
// just the same.
func TestWhatAHelperLeavesIsNoMember(t *testing.T) {
	dir := leaveDaemon(t)
	file := filepath.Join(dir, "daemon")
	s := &Session{}
	s.hand.id, s.opts.Engine = session.NewID(), "ssh://far"
	tr := s.newTree()
	if tr.openEngine(); tr.engine == nil {
		t.Fatal("no engine")
	}
	conn, err := tr.engine.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	helper := tr.engine.Helpers()[0].PID
	daemon := daemonIn(t, file)
	orphan := filepath.Join(dir, "orphan")
	if err := exec.Command("/bin/sh", "-c", fmt.Sprintf(leavesDaemon[:len(leavesDaemon)-len("exec cat\n")], orphan)).Run(); err != nil {
		t.Fatal(err)
	}
	members := []int{daemonIn(t, orphan).PID}
	expectMembers(t, &tr.members, "while the helper lives", members)

	// The engine hangs up, and then the session ends.
	conn.Close()
	testkit.Until(t, "the command has ended", func() bool {
		all, err := s.reader.Descendants(os.Getpid())
		return err == nil && !slices.ContainsFunc(all, func(p proc.Stat) bool { return p.Session == helper && p.Comm == "cat" && !p.Dead() })
	})
	expectMembers(t, &tr.members, "when the command has ended", members)
	tr.engine.Close()
	testkit.Until(t, "the daemon is an orphan of ours", func() bool {
		st, err := s.reader.Stat(daemon.PID)
		return err == nil && st.PPID == os.Getpid()
	})
	expectMembers(t, &tr.members, "when no helper is left", members)
	tr.kill()
	testkit.Until(t, "the end of the orphan", func() bool {
		_, _ = proc.Reap(func(int, unix.WaitStatus) {})
		_, err := s.reader.Stat(members[0])
		return err != nil
	})
	if st, err := s.reader.Stat(daemon.PID); err != nil || st.ID != daemon || st.Dead() {
		t.Errorf("the daemon was touched: %+v, %v", st, err)
	}
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
