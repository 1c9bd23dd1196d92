package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// Limits of memory, processes and processors. They need the controllers of cgroup v2, which the machines that test this bind to v1. A
// virtual machine has them: scripts/vm ./e2e -test.run=TestLeafLimit

// limitable is a cgroup that can have limits, and that no process is in.
func limitable(t *testing.T) string {
	t.Helper()
	dir := needCgroup(t)
	have := strings.Fields(control(t, dir+"/cgroup.controllers"))
	for _, c := range []string{"memory", "pids", "cpu"} {
		testkit.Lacks(t, testkit.Controllers, !slices.Contains(have, c), c)
	}
	return dir
}

func control(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// within starts a session in a cgroup. The gateway is not in it.
func (g *gateway) within(dir string, flags []string, argv ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.Spawn(setup{Bare: true}, inWorld(s.Wrap(flags, argv...), "cgroup="+dir)...)
	return s
}

// eater is a session in a cgroup, with a server that eats memory when it is asked to.
func (g *gateway) eater(dir string, flags ...string) *session {
	g.t.Helper()
	s := g.newSession()
	s.Spawn(setup{Bare: true}, inWorld(s.Wrap(flags, fixture, "mcp", s.Dir, "-", "0", "mcp"), "cgroup="+dir)...)
	s.greet()
	return s
}

// wantPlain expects a cgroup as it was before any session: nothing below it, no process in it, no controller handed on.
func wantPlain(t *testing.T, dir string) {
	t.Helper()
	below, _ := filepath.Glob(dir + "/*/")
	if procs, on := control(t, dir+"/cgroup.procs"), control(t, dir+"/cgroup.subtree_control"); len(below) > 0 || procs+on != "" {
		t.Errorf("left in %s: %q, processes %q, controllers %q", dir, below, procs, on)
	}
}

// A server that eats memory dies alone, however often, and the log says of what. Without the limit it eats.
func TestLeafLimitMemory(t *testing.T) {
	dir := limitable(t)
	g := startGateway(t)
	other := g.tree(setup{Flags: []string{"--memory-max=64M"}}, "serve")
	other.WaitReady()
	for range testkit.Rounds(100) {
		s := g.eater(dir, "--memory-max=64M")
		s.Write(toolCall(7, "eat", "128") + "\n")
		wantExit(t, s.Wait(), "exit 137")
		if c := s.EndedWhole("server-exited"); c.OOMKills == 0 || !strings.Contains(c.Why, "out of memory") {
			t.Errorf("closing event: %+v", c)
		}
		s.NothingLeft()
		wantPlain(t, dir)
		if !strings.Contains(other.Ask(`{"id":3,"method":"ping"}`), `"id":3`) {
			t.Fatal("another server does not answer")
		}
	}
	s := g.eater(dir, "--memory-max=infinity")
	s.wantAnswer(s.Ask(toolCall(7, "eat", "128")), 7)
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	if c := s.EndedWhole("stdin-closed"); c.OOMKills+len(c.Why) != 0 {
		t.Errorf("closing event: %+v", c)
	}
	other.closeStdin()
	wantExit(t, other.Wait(), "exit 0")
}

// What one process has eaten ends all of the server: those that wait for it are not left waiting.
func TestLeafLimitEndsAll(t *testing.T) {
	dir := limitable(t)
	s := startGateway(t).within(dir, []string{"--memory-max=16M"}, "sh", "-c", "dd if=/dev/zero of=/dev/null bs=64M count=1; echo still here; sleep 1000")
	wantExit(t, s.Wait(), "exit 137")
	if out := s.ReadToEnd(); out != "" {
		t.Errorf("the server said %q", out)
	}
	s.Gone()
	wantPlain(t, dir)
}

// Behind a front the call is answered, with an error that names the history which says that memory ran out.
func TestLeafLimitBehindAFront(t *testing.T) {
	dir := limitable(t)
	env, read := ownHistory(t)
	s := startGateway(t).newSession()
	wrapped := s.Wrap([]string{"--memory-max=64M", "--on-crash=restart"}, fixture, "mcp", s.Dir, "-", "0", "mcp")
	s.Spawn(setup{Bare: true, Env: []string{env}}, inWorld(wrapped, "cgroup="+dir)...)
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
	wantPlain(t, dir)
}

// The other limits hold, and ps shows all.
func TestLeafLimitOthers(t *testing.T) {
	dir := limitable(t)
	const script = "(while :; do :; done) & (for n in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; echo $n); echo up; wait"
	flags := []string{"--memory-max=100M", "--memory-high=10%", "--pids-max=5", "--cpu-max=20%", "--limits=require", "--cgroup=require"}
	g := startGateway(t)
	s := g.within(dir, flags, "sh", "-c", script)
	if got := s.Read(); got != "up\n" {
		t.Errorf("with at most 5 processes the server started %s", got)
	}
	s.WaitRecord()
	leaf := filepath.Join(dir, "mcp-tether-"+s.ID())
	testkit.Until(t, "the limits to be reached", func() bool {
		return strings.Contains(control(t, leaf+"/pids.events"), "max ") && !strings.Contains(control(t, leaf+"/pids.events"), "max 0") &&
			!strings.Contains(control(t, leaf+"/cpu.stat"), "nr_throttled 0")
	})
	c := caller{runtime: s.Runtime}
	shown := c.ps(t)
	if len(shown) != 1 || shown[0].Leaf["memory_max_bytes"] != 100<<20 || shown[0].Leaf["pids_max"] != 5 || shown[0].Leaf["pids"] > 5 ||
		shown[0].Leaf["cpu_max_percent"] != 20 || shown[0].Leaf["memory_bytes"] == 0 || shown[0].Leaf["memory_high_bytes"] == 0 {
		t.Errorf("ps shows %+v", shown)
	}
	if text := c.run(t, "ps").stdout; !strings.Contains(text, "/5 ") || !strings.Contains(text, "%/20%") || !strings.Contains(text, "M ") {
		t.Errorf("ps shows\n%s", text)
	}
	s.Signal(syscall.SIGTERM)
	s.Gone()
	wantPlain(t, dir)
	s = g.within(dir, nil, "sh", "-c", script)
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
			dir := limitable(t)
			g := startGateway(t)
			s := g.within(dir, quick("--memory-max=100M"), node(filepath.Join(g.Dir, "1"), "serve", "setsid,ignore-term")...)
			s.WaitReady()
			if _, err := os.Stat(filepath.Join(dir, "mcp-tether.aside."+s.ID())); err != nil {
				t.Error(err)
			}
			kill(s)
			if name == "both" {
				// Who removes what is left of a dead session removes this as well.
				(caller{runtime: s.Runtime}).run(t, "reap", "--kill", "--term-grace=300ms")
			}
			s.WaitDead()
			testkit.Until(t, "a plain cgroup", func() bool {
				below, _ := filepath.Glob(dir + "/mcp-*")
				return len(below) == 0
			})
			wantPlain(t, dir)
		})
	}
}

// Where limits cannot be had, the session says so, once, with the cure, and --limits=require refuses. This needs no controller.
func TestLeafLimitRefused(t *testing.T) {
	dir := needCgroup(t)
	inhabited := startGateway(t).within(dir, nil, "sh", "-c", "echo up; cat")
	if got := inhabited.Read(); got != "up\n" {
		t.Fatal(got)
	}
	g := startGateway(t)
	s := g.within(dir, []string{"--memory-max=100M", "--scope=off"}, "sh", "-c", "echo up; cat")
	if got := s.Read(); got != "up\n" {
		t.Fatal(got)
	}
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	log, err := os.ReadFile(s.Log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(log), "limits cannot be enforced (memory.max): ") != 1 || !strings.Contains(string(log), "cgroup_no_v1=all") && !strings.Contains(string(log), "docs/limits.md") {
		t.Errorf("the log says\n%s", log)
	}
	s = g.within(dir, []string{"--memory-max=100M", "--scope=off", "--limits=require"}, "sh", "-c", "echo up")
	wantExit(t, s.Wait(), "exit 125")
	if out := s.ReadToEnd(); out != "" {
		t.Errorf("the server said %q", out)
	}
	if said := control(t, s.Stderr); !strings.Contains(said, "--limits=require: limits cannot be enforced (memory.max): ") {
		t.Errorf("it said %q", said)
	}
	inhabited.closeStdin()
	wantExit(t, inhabited.Wait(), "exit 0")
	wantPlain(t, dir)
}

// givesScopes is a busctl that does what systemd does when it is asked for a scope: it makes a cgroup and moves the process there.
const givesScopes = `#!/bin/sh
[ "$5 ${13} ${15} ${19}" = "StartTransientUnit Delegate true PIDs" ] && mkdir "$SCOPES/$7" && echo "${22}" >"$SCOPES/$7/cgroup.procs"
`

// Where our own cgroup holds others, systemd is asked for one.
func TestLeafLimitScope(t *testing.T) {
	dir := limitable(t)
	scopes := limitable(t)
	for _, c := range []string{"memory", "pids", "cpu"} {
		if err := os.WriteFile(scopes+"/cgroup.subtree_control", []byte("+"+c), 0); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	testkit.WriteProgram(t, bin+"/busctl", []byte(strings.ReplaceAll(givesScopes, "$SCOPES", scopes)))
	g := startGateway(t)
	inhabited := g.within(dir, nil, "sh", "-c", "echo up; cat")
	if got := inhabited.Read(); got != "up\n" {
		t.Fatal(got)
	}
	s := g.newSession()
	flags := []string{"--memory-max=64M", "--limits=require"}
	s.Spawn(setup{Bare: true, Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH")}}, inWorld(s.Wrap(flags, fixture, "mcp", s.Dir, "-", "0", "mcp"), "cgroup="+dir)...)
	s.greet()
	s.WaitRecord()
	scope := filepath.Join(scopes, "mcp-tether-"+s.ID()+".scope")
	if got := control(t, filepath.Join(scope, "mcp-tether-"+s.ID(), "memory.max")); got != strconv.Itoa(64<<20) {
		t.Errorf("memory.max is %s", got)
	}
	s.Write(toolCall(7, "eat", "128") + "\n")
	wantExit(t, s.Wait(), "exit 137")
	s.EndedWhole("server-exited")
	wantPlain(t, scope)
	if err := os.Remove(scope); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	inhabited.closeStdin()
	wantExit(t, inhabited.Wait(), "exit 0")
	_ = os.WriteFile(scopes+"/cgroup.subtree_control", []byte("-memory -pids -cpu"), 0)
}
