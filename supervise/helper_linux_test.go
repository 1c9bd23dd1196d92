package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
	"mcp-tether/proc"
	"mcp-tether/teardown"
)

// sshMaster stands for a docker command whose ssh leaves a master connection behind (ControlPersist): a daemon in a terminal
// session of its own, without our environment.
const sshMaster = `#!/bin/sh
(env -i setsid /bin/sh -c 'echo $$ >%[1]s.new; mv %[1]s.new %[1]s; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
exec cat
`

// The daemon is nobody's member, as long as its helper lives and afterwards. An orphan of the server is one, though it looks
// just the same.
func TestWhatAHelperLeavesIsNoMember(t *testing.T) {
	if err := proc.BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	dir := t.TempDir()
	file := filepath.Join(dir, "master")
	script := fmt.Sprintf(sshMaster, file)
	testkit.WriteProgram(t, filepath.Join(dir, "docker"), []byte(script))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := &Session{}
	s.opts.Engine = "ssh://far"
	s.left.scope.Root = os.Getpid()
	tr := s.newTree()
	var err error
	if tr.engine, err = s.newEngine(false); err != nil {
		t.Fatal(err)
	}
	conn, err := tr.engine.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	helper := tr.engine.running()[0].PID
	master := daemonIn(t, file)
	orphan := filepath.Join(dir, "orphan")
	if err := exec.Command("/bin/sh", "-c", fmt.Sprintf(sshMaster[:len(sshMaster)-len("exec cat\n")], orphan)).Run(); err != nil {
		t.Fatal(err)
	}
	members := []int{daemonIn(t, orphan).PID}
	expectMembers(t, &tr.scope, "while the helper lives", members)

	// The engine hangs up, and then the session ends.
	conn.Close()
	testkit.Until(t, "the command has ended", func() bool {
		all, err := s.reader.Descendants(os.Getpid())
		return err == nil && !slices.ContainsFunc(all, func(p proc.Stat) bool { return p.Session == helper && p.Comm == "cat" && !p.Dead() })
	})
	expectMembers(t, &tr.scope, "when the command has ended", members)
	tr.engine.endHelpers()
	testkit.Until(t, "the daemon is an orphan of ours", func() bool {
		st, err := s.reader.Stat(master.PID)
		return err == nil && st.PPID == os.Getpid()
	})
	expectMembers(t, &tr.scope, "when no helper is left", members)
	tr.scope.Kill(0)
	testkit.Until(t, "the end of the orphan", func() bool {
		_, _ = proc.Reap(func(int, unix.WaitStatus) {})
		_, err := s.reader.Stat(members[0])
		return err != nil
	})
	if st, err := s.reader.Stat(master.PID); err != nil || st.ID != master || st.Dead() {
		t.Errorf("the daemon was touched: %+v, %v", st, err)
	}
	// The next tree has another engine, and knows the daemon.
	next := tr.scope.Next()
	tr.scope, tr.engine = next, nil
	tr.scope.Helpers = tr.helpers
	expectMembers(t, &tr.scope, "in the next tree", nil)
	if !tr.onlyOthers() {
		t.Error("the next tree waits for the end of the daemon")
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

func expectMembers(t *testing.T, s *teardown.Scope, when string, want []int) {
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
