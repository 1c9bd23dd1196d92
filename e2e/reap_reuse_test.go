package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
)

// A pid that belonged to a session belongs to another process now. In a pid namespace of its own the test chooses which
// process gets which pid, so the reuse is made to happen.

// startInnocent starts a process that answers what it is told.
func startInnocent(t *testing.T, user int) innocent {
	t.Helper()
	i, err := newInnocent(user)
	ok(t, err)
	t.Cleanup(i.end)
	return i
}

// innocent is a process that must not be ended. It answers as long as it lives.
type innocent struct {
	pid   int
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func newInnocent(user int) (innocent, error) {
	i := innocent{cmd: exec.Command("/bin/cat")}
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if user != 0 {
		i.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	}
	in, err := i.cmd.StdinPipe()
	if err != nil {
		return i, err
	}
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		return i, err
	}
	i.in, i.lines = in, bufio.NewReader(out)
	if err := i.cmd.Start(); err != nil {
		return i, err
	}
	i.pid = i.cmd.Process.Pid
	return i, i.answers()
}

// answers tells whether the process lives.
func (i innocent) answers() error {
	if _, err := io.WriteString(i.in, "still\n"); err != nil {
		return err
	}
	if line, err := i.lines.ReadString('\n'); err != nil || line != "still\n" {
		return fmt.Errorf("it answered %q: %w", line, err)
	}
	return nil
}

func (i innocent) wantAlive(t *testing.T, after string) {
	t.Helper()
	if err := i.answers(); err != nil {
		t.Errorf("after %s: an innocent was ended: %v", after, err)
	}
}

func (i innocent) end() {
	_ = i.cmd.Process.Kill()
	_ = i.cmd.Wait()
}

// reuse starts innocents until one has the pid. Its last owner must have been waited for, and have started in an
// earlier clock tick. Two within one tick cannot be told apart, and no host goes through all its pids so fast.
func reuse(t *testing.T, pid int) innocent {
	t.Helper()
	outgrow(t)
	// A thread has a number as well, and keeps it: this process has all that it needs to start others before the first try.
	for range 3 {
		startInnocent(t, 0).end()
	}
	for range 1000 {
		ok(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Appendf(nil, "%d", pid-1), 0))
		i := startInnocent(t, 0)
		if i.pid == pid {
			return i
		}
		i.end()
	}
	t.Fatalf("nobody got pid %d", pid)
	return innocent{}
}

// What proves that a process was left behind, and which process of the session has ended and given its pid to another one.
func TestReapSparesReusedPID(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, c := range []struct {
		class, cgroup string
		position      func(*session) int
	}{
		{"record", "off", func(s *session) int { return s.Server }},
		{"cgroup", "auto", func(s *session) int { return childrenOf(s.Server)[0] }},
		{"mark", "off", func(s *session) int { return s.gw.PID }},
		{"record", "auto", func(s *session) int { return s.Supervisor() }},
		{"mark", "off", func(s *session) int { return childrenOf(s.Server)[0] }},
	} {
		t.Run(c.class+"/cgroup="+c.cgroup, func(t *testing.T) { testReuse(t, c.class, c.cgroup, c.position) })
	}
}

// No process stays in the group or terminal session of one that ends, or its pid would not be free.
func testReuse(t *testing.T, class, cgroup string, position func(*session) int) {
	s := startGateway(t).newSession()
	if class == "record" {
		s.shareRuntime()
	}
	s.Spawn(setup{Flags: deaf("--cgroup=" + cgroup)}, node(s.Dir, "serve,ignore-eof", "setsid", "daemon")...)
	s.WaitReady()
	pid := position(s)
	s.gw.killWithAnchor(t, s.PID)
	if pid != s.gw.PID {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		stage.AwaitExit(t, pid)
	}
	other := reuse(t, pid)
	settle(t)
	r := operator.reap(t, 0, "--kill")
	if f, ok := r.about(pid); ok {
		t.Errorf("%v has the innocent among its members", f)
	}
	if len(r.Findings) == 0 {
		t.Error("nothing was found")
	}
	for _, f := range r.Findings {
		if f.Class != class && (class != "cgroup" || nestable()) {
			t.Errorf("by %s, want by %s: %v", f.Class, class, f)
		}
	}
	other.wantAlive(t, "the sweep")
	s.WaitDead()
	// The control: the bare number does reach it.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil || other.answers() == nil {
		t.Errorf("kill %d did not reach the innocent: %v", pid, err)
	}
	if again := operator.reap(t, 0, "--kill"); len(again.Findings) > 0 {
		t.Errorf("a second sweep found %v", again.Findings)
	}
}

// A member that obeys SIGTERM is gone, and its pid is another process's, when SIGKILL comes for a member that does not.
func TestReapSparesPIDReusedMeanwhile(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: resisting("--cgroup=off")}, node(s.Dir, "serve", "daemon,ignore-term", "daemon,closefds")...)
	s.WaitReady()
	obeys := stage.Holders(s.Flock)[0].PID
	killPair(t, s.PID)
	cmd := operator.command("reap", "--kill")
	ok(t, cmd.Start())
	stage.AwaitExit(t, obeys)
	// However long it takes until the pid is another's: SIGKILL does not come before.
	freeze(t, cmd.Process.Pid)
	other := reuse(t, obeys)
	if len(stage.Holders(s.Life.Path)) == 0 {
		t.Error("the kill came before the pid was another's")
	}
	ok(t, cmd.Process.Signal(syscall.SIGCONT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("reap: %v", err)
	}
	other.wantAlive(t, "the sweep")
	s.swept()
}
