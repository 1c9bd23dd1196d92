package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

// Limits of memory, processes and processors. They need the controllers of cgroup v2, which the machines that test this bind to v1. A
// virtual machine has them: scripts/vm ./e2e -test.run=TestLeafLimit

// scopes is a cgroup below which a stand-in for systemd makes scopes that can have limits.
type scopes struct {
	dir string
	// own is the cgroup in which the wrapper starts. It can have none, with that process in it.
	own string
	// env has the stand-in in PATH.
	env string
}

// givesScopes is a busctl that does what systemd does when it is asked for a scope: it makes a cgroup and moves the process there.
const givesScopes = `#!/bin/sh
[ "$5 ${13} ${15} ${19}" = "StartTransientUnit Delegate true PIDs" ] && mkdir "$SCOPES/$7" && echo "${22}" >"$SCOPES/$7/cgroup.procs"
`

func limitable(t *testing.T) scopes {
	t.Helper()
	dir, bin := needCgroup(t), t.TempDir()
	have := strings.Fields(control(t, dir+"/cgroup.controllers"))
	for _, c := range []string{"memory", "pids", "cpu"} {
		testkit.Lacks(t, testkit.Controllers, !slices.Contains(have, c), c)
		ok(t, os.WriteFile(dir+"/cgroup.subtree_control", []byte("+"+c), 0))
	}
	t.Cleanup(func() { _ = os.WriteFile(dir+"/cgroup.subtree_control", []byte("-memory -pids -cpu"), 0) })
	testkit.WriteProgram(t, bin+"/busctl", []byte(strings.ReplaceAll(givesScopes, "$SCOPES", dir)))
	return scopes{dir, needCgroup(t), "PATH=" + bin + ":" + os.Getenv("PATH")}
}

// leaf is the leaf of a session, in its scope.
func (c scopes) leaf(s *session) string {
	return filepath.Join(c.dir, "mcp-tether-"+s.ID()+".scope", "mcp-tether-"+s.ID())
}

// removeEmpty removes scopes, as systemd does when they are empty, and expects no leaf in them.
func (c scopes) removeEmpty(t *testing.T) {
	t.Helper()
	made, _ := filepath.Glob(c.dir + "/*.scope")
	if len(made) == 0 {
		t.Error("no scope was made")
	}
	for _, scope := range made {
		testkit.Until(t, scope+" to be empty", func() bool { return strings.Contains(control(t, scope+"/cgroup.events"), "populated 0") })
		_ = os.Remove(scope + "/mcp-tether.aside")
		ok(t, os.Remove(scope))
	}
}

func control(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	ok(t, err)
	return strings.TrimSpace(string(b))
}

// limited starts a session that finds systemd.
func (g *gateway) limited(c scopes, flags []string, argv ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.limited(c, nil, flags, argv...)
	return s
}

func (s *session) limited(c scopes, env, flags []string, argv ...string) {
	s.t.Helper()
	s.Spawn(setup{Bare: true, Env: append(env, c.env)}, inWorld(s.Wrap(flags, argv...), "cgroup="+c.own)...)
}

// eater is such a session, with a server that eats memory when it is asked to.
func (g *gateway) eater(c scopes, flags ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.limited(c, nil, flags, fixture, "mcp", s.Dir, "-", "0", "mcp")
	s.greet()
	return s
}

// A server that eats memory dies alone, however often, and the log says of what. Without the limit it eats.
func TestLeafLimitMemory(t *testing.T) {
	c := limitable(t)
	g := startGateway(t)
	other := g.tree(setup{Flags: []string{"--memory-max=64M"}}, "serve")
	other.WaitReady()
	for range testkit.Rounds(100) {
		s := g.eater(c, "--memory-max=64M")
		s.Write(toolCall(7, "eat", "128") + "\n")
		wantExit(t, s.Wait(), "exit 137")
		if end := s.EndedWhole("server-exited"); end.OOMKills == 0 || !strings.Contains(end.Why, "out of memory") {
			t.Errorf("closing event: %+v", end)
		}
		s.NothingLeft()
		c.removeEmpty(t)
		if !strings.Contains(other.Ask(`{"id":3,"method":"ping"}`), `"id":3`) {
			t.Fatal("another server does not answer")
		}
	}
	s := g.eater(c, "--memory-max=infinity")
	s.wantAnswer(s.Ask(toolCall(7, "eat", "128")), 7)
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	if end := s.EndedWhole("stdin-closed"); end.OOMKills+len(end.Why) != 0 {
		t.Errorf("closing event: %+v", end)
	}
	other.closeStdin()
	wantExit(t, other.Wait(), "exit 0")
}

// What one process has eaten ends all of the server: those that wait for it are not left waiting.
func TestLeafLimitEndsAll(t *testing.T) {
	c := limitable(t)
	s := startGateway(t).limited(c, []string{"--memory-max=16M"}, "sh", "-c", "dd if=/dev/zero of=/dev/null bs=64M count=1; echo still here; sleep 1000")
	wantExit(t, s.Wait(), "exit 137")
	if out := s.ReadToEnd(); out != "" {
		t.Errorf("the server said %q", out)
	}
	s.Gone()
	c.removeEmpty(t)
}

// Behind a front the call is answered, with an error that names the history which says that memory ran out.
func TestLeafLimitBehindAFront(t *testing.T) {
	c := limitable(t)
	env, read := ownHistory(t)
	s := startGateway(t).newSession()
	s.limited(c, []string{env}, []string{"--memory-max=64M", "--on-crash=restart"}, fixture, "mcp", s.Dir, "-", "0", "mcp")
	s.greet()
	line := s.Ask(toolCall(7, "eat", "128"))
	_, named, found := strings.Cut(line, "; mcp-tether history ")
	if !found {
		t.Fatalf("answer %s", line)
	}
	id, _, _ := strings.Cut(named, " ")
	testkit.Until(t, "the start in the history", func() bool { return strings.Contains(read(id).stdout, "out of memory") })
	s.closeStdin()
	s.Wait()
	s.NothingLeft()
	c.removeEmpty(t)
}

// The other limits hold, and ps shows all.
func TestLeafLimitOthers(t *testing.T) {
	c := limitable(t)
	const script = "(while :; do :; done) & (for n in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; echo $n); echo up; wait"
	flags := []string{"--memory-max=100M", "--pids-max=5", "--cpu-max=20%", "--limits=require", "--cgroup=require"}
	g := startGateway(t)
	s := g.limited(c, flags, "sh", "-c", script)
	if got := s.Read(); got != "up\n" {
		t.Errorf("with at most 5 processes the server started %s", got)
	}
	s.WaitRecord()
	leaf := c.leaf(s)
	testkit.Until(t, "the limits to be reached", func() bool {
		return strings.Contains(control(t, leaf+"/pids.events"), "max ") && !strings.Contains(control(t, leaf+"/pids.events"), "max 0") &&
			!strings.Contains(control(t, leaf+"/cpu.stat"), "nr_throttled 0")
	})
	user := caller{runtime: s.Runtime}
	shown := user.ps(t)
	if len(shown) != 1 || shown[0].Leaf["memory_max_bytes"] != 100<<20 || shown[0].Leaf["pids_max"] != 5 || shown[0].Leaf["pids"] > 5 ||
		shown[0].Leaf["cpu_max_percent"] != 20 || shown[0].Leaf["memory_bytes"] == 0 {
		t.Errorf("ps shows %+v", shown)
	}
	if text := user.run(t, "ps").stdout; !strings.Contains(text, "/5 ") || !strings.Contains(text, "%/20%") || !strings.Contains(text, "M ") {
		t.Errorf("ps shows\n%s", text)
	}
	s.Signal(syscall.SIGTERM)
	s.Gone()
	c.removeEmpty(t)
	s = g.limited(c, nil, "sh", "-c", script)
	if got := s.Read(); got != "10\n" {
		t.Errorf("without a limit the server started %s", got)
	}
	s.WaitRecord()
	if shown := (caller{runtime: s.Runtime}).ps(t); len(shown) != 1 || shown[0].Leaf != nil || shown[0].Procs != 12 {
		t.Errorf("ps shows %+v", shown)
	}
	s.Signal(syscall.SIGTERM)
	s.Gone()
}

// Whoever is killed, what was made for the limits goes.
func TestLeafLimitKilled(t *testing.T) {
	for name, kill := range map[string]func(s *session){
		"anchor":     func(s *session) { _ = syscall.Kill(s.PID, syscall.SIGKILL) },
		"supervisor": func(s *session) { _ = syscall.Kill(s.Supervisor(), syscall.SIGKILL) },
		"both": func(s *session) {
			_, _ = syscall.Kill(s.Supervisor(), syscall.SIGSTOP), syscall.Kill(s.PID, syscall.SIGKILL)
			_ = syscall.Kill(s.Supervisor(), syscall.SIGKILL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := limitable(t)
			g := startGateway(t)
			s := g.limited(c, quick("--memory-max=100M"), node(filepath.Join(g.Dir, "1"), "serve", "setsid,ignore-term")...)
			s.WaitReady()
			leaf := c.leaf(s)
			if _, err := os.Stat(leaf); err != nil {
				t.Error(err)
			}
			kill(s)
			if name == "both" {
				// Who removes what is left of a dead session removes this as well.
				(caller{runtime: s.Runtime}).run(t, "reap", "--kill")
			}
			s.WaitDead()
			testkit.Until(t, "the leaf to be removed", func() bool { _, err := os.Stat(leaf); return errors.Is(err, os.ErrNotExist) })
			c.removeEmpty(t)
		})
	}
}

// Where limits cannot be had, the session says so, once, with the cure, and --limits=require refuses. This needs no controller.
func TestLeafLimitRefused(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	c := scopes{own: needCgroup(t), env: "LANG=C"}
	g := startGateway(t)
	s := g.limited(c, []string{"--memory-max=100M"}, "sh", "-c", "echo up; cat")
	if got := s.Read(); got != "up\n" {
		t.Fatal(got)
	}
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	log, err := os.ReadFile(s.Log)
	ok(t, err)
	if strings.Count(string(log), "limits cannot be enforced (memory.max): ") != 1 || !strings.Contains(string(log), "cgroup_no_v1=all") && !strings.Contains(string(log), "docs/limits.md") {
		t.Errorf("the log says\n%s", log)
	}
	s = g.limited(c, []string{"--memory-max=100M", "--limits=require"}, "sh", "-c", "echo up")
	wantExit(t, s.Wait(), "exit 125")
	if out := s.ReadToEnd(); out != "" {
		t.Errorf("the server said %q", out)
	}
	if said := control(t, s.Stderr); !strings.Contains(said, "--limits=require: limits cannot be enforced (memory.max): ") {
		t.Errorf("it said %q", said)
	}
}
