package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A session whose server sleeps, or has not started, is one process with one thread: no Go runtime waits in it. A signal that ends
// nothing leaves it as it is, a message wakes the server, and one that ends is heard. The control is the session that is awake.
func TestAsleepHasNoRuntime(t *testing.T) {
	t.Parallel()
	s := startGateway(t).mcpSession(setup{Flags: sleepy()}, "serve", "daemon")
	s.greetHeld(50)
	s.IDs = s.Records()
	if n := len(s.Members()); n < 5 {
		t.Fatalf("control: %d processes while the server is awake", n)
	}
	s.letGo(50)
	for n := 1; n <= 2; n++ {
		s.asleep(n)
		s.alone()
		s.Signal(syscall.SIGUSR1)
		quiet(50 * time.Millisecond)
		s.alone()
		s.echo(10 + n)
	}
	s.asleep(3)
	s.alone()
	s.Signal(syscall.SIGTERM)
	if how := s.Wait(); how != "exit 143" {
		t.Errorf("the wrapper ended with %q", how)
	}
	s.Gone()
	s.EndedWhole("signal")
}

// alone waits until the session is one process, and expects that this has one thread.
func (s *session) alone() {
	s.t.Helper()
	var all []stage.Proc
	s.until("one process", func() bool { all = s.Members(); return len(all) == 1 })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", all[0].PID))
	if err != nil || !strings.Contains(string(status), "\nThreads:\t1\n") || all[0].PID != s.PID {
		s.t.Errorf("asleep there is %v, %v, with more than a thread, or the client's is %d", all, err, s.PID)
	}
}

// A gateway with hundreds of sleepers is killed: each session ends without a runtime, and is in the history all the same. The waiter
// writes seconds as no front does. The control is a session with a living server, whose front ends it.
func TestSleepersEndWithoutARuntime(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	g, n, state := startGateway(t), 300, t.TempDir()
	spawn := func(name, flag string) {
		g.Call("spawn", name, "env="+env, "env=XDG_RUNTIME_DIR="+state, "stderr="+state+"/stderr", "--", tether, "run", "--name="+name, flag, "--", "/bin/cat")
	}
	for i := range n {
		spawn(strconv.Itoa(i), "--lazy")
	}
	stage.Until(t, "the waiters are all that is left of the sleepers", func() bool { return len(stage.Below(g.PID)) == n })
	spawn("awake", "--hibernate=10m")
	g.Call("write", "awake", `{"jsonrpc":"2.0","method":"x"}`+"\n")
	g.Call("read", "awake")
	all := stage.Below(g.PID)
	g.Kill()
	if left := stage.Outlasting(testkit.Patience, all...); len(left) > 0 {
		t.Errorf("%d of %d live on", len(left), len(all))
	}
	lines, err := os.ReadFile(filepath.Join(strings.TrimPrefix(env, "XDG_STATE_HOME="), "mcp-tether/history.jsonl"))
	ok(t, err)
	alone := regexp.MustCompile(`"name":"\d+",.*"seconds":\d+e-3,"cause":"(gateway-gone|std(in|out)-closed)","exit":0}\n`)
	if got := len(alone.FindAll(lines, -1)); got != n {
		t.Errorf("%d of %d ended without a front", got, n)
	}
	if fronts := regexp.MustCompile(`"name":"awake",.*"seconds":\d+\.\d+,`).FindAll(lines, -1); len(fronts) != 2 {
		t.Errorf("control: fronts and supervisors have told of %d sessions, want 2", len(fronts))
	}
	for _, p := range wantPast(t, read, n+1) {
		if p.Name != "awake" && p.Exit != 0 || p.Seconds <= 0 || p.Open {
			t.Errorf("%+v", p)
		}
	}
	if left, _ := filepath.Glob(state + "/mcp-tether/*.json*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// However a sleeper ends, code and history say what they say with a front. A client that has written before it closed its end is answered.
func TestSleepersEndAsWithAFront(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	g, state := startGateway(t), t.TempDir()
	said := `{"jsonrpc":"2.0","method":"x"}` + "\n"
	ends := []struct {
		name, cause, how string
		end              [][]string
	}{
		{"stdin", "stdin-closed", "exit 0", [][]string{{"close", "stdin"}}},
		{"stdout", "stdout-closed", "exit 0", [][]string{{"close", "stdout"}}},
		{"term", "signal", "exit 143", [][]string{{"signal", "15"}}},
		{"hup", "signal", "exit 129", [][]string{{"signal", "1"}}},
		{"socket", "stdin-closed", "exit 0", [][]string{{"shutdown"}}},
		{"wrote", "stdin-closed", "exit 0", [][]string{{"write", said}, {"close", "stdin"}}},
	}
	for _, c := range ends {
		stdio := "stdio=pipe"
		if c.name == "socket" {
			stdio = "stdio=socketpair"
		}
		g.Call("spawn", c.name, stdio, "env="+env, "env=XDG_RUNTIME_DIR="+state, "stderr="+state+"/stderr", "--",
			tether, "run", "--name="+c.name, "--lazy", "--", "/bin/cat")
	}
	stage.Until(t, "all sleep", func() bool { return len(stage.Below(g.PID)) == len(ends) })
	for _, c := range ends {
		for _, words := range c.end {
			g.Call(append([]string{words[0], c.name}, words[1:]...)...)
		}
		if c.name == "wrote" && g.Call("eof", c.name) != said {
			t.Error("what was written before the end is not answered")
		}
		if how := g.Call("wait", c.name); how != c.how {
			t.Errorf("%s: %s, want %s", c.name, how, c.how)
		}
	}
	for i, p := range wantPast(t, read, len(ends)) {
		if c := ends[i]; p.Name != c.name || p.Cause != c.cause || "exit "+strconv.Itoa(p.Exit) != c.how || (p.Signal != "") != (c.cause == "signal") {
			t.Errorf("%+v, want %+v", p, c)
		}
	}
}
