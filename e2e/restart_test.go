package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// mcp-tether restart has the next server of a session started at once, under a client that goes on. --restart-on does it when a
// file changes.

// restart runs the command in the session's runtime directory.
func (s *session) restart(args ...string) outcome {
	s.t.Helper()
	return (caller{runtime: s.Runtime}).run(s.t, append([]string{"restart"}, args...)...)
}

// The client keeps its connection, and hears of the tools of another version. An open call is waited for; with --force it gets an
// error. Without the command the server stays as it is.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.mode("told")
	s.Spawn(setup{Flags: polite("--hibernate=1h", "--name=mine")}, fixture, "mcp", s.Dir, "-", "0", "serve", "daemon")
	s.greet()
	s.IDs = s.Records()
	s.wantAnswer(s.Ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), 1)
	first := s.lastServer()
	s.mode("told,tools")
	s.hold(7)
	done := make(chan outcome, 1)
	go func() { done <- s.restart("--name=mine") }()
	s.echo(8) // While the call is open, the server serves.
	if s.lastServer() != first {
		t.Error("the server was replaced under an open call")
	}
	s.Write(release + "\n")
	s.wantAnswer(s.Read(), 7)
	if line := s.Read(); !strings.Contains(line, "tools/list_changed") {
		t.Errorf("the client was told %s", line)
	}
	if o := <-done; o.code != 0 || o.stdout != "restarted "+s.ID()+" mine\n" {
		t.Errorf("%+v", o)
	}
	second := s.lastServer()
	s.wantAnswer(s.Ask(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`), 9)

	s.hold(10)
	if o := s.restart("--force", "--json", s.ID()[:6]); o.code != 0 || !strings.Contains(o.stdout, `"restarted": true`) {
		t.Errorf("%+v", o)
	}
	s.wantError(s.Read(), 10, "the server was restarted before it answered")
	s.echo(11)
	if third := s.lastServer(); first == second || second == third {
		t.Errorf("servers %d, %d, %d", first, second, third)
	}
	if r := s.sleeper(); r.Restarts != 2 || r.State != "running" {
		t.Errorf("%+v", r)
	}
	s.farewell()
}

// A server that does not see the end of its input is ended all the same, without its grace period. Seen to take as long as that.
func TestRestartHanging(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{Flags: polite("--hibernate=1h", "--eof-grace=1h")}, "serve")
	s.mode("stay")
	if o := s.restart("--force", s.ID()); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	stays := s.lastServer()
	s.mode("")
	if o := s.restart("--force", s.ID()); o.code != 0 || s.lastServer() == stays {
		t.Errorf("%+v", o)
	}
	s.echo(1)
	s.farewell()
}

// What has no front cannot be restarted, and is told how it could. A session that sleeps has a new server with its next message.
func TestRestartCannot(t *testing.T) {
	t.Parallel()
	plain := greeted(t, setup{Flags: polite()}, "serve", "daemon")
	server := plain.lastServer()
	if o := plain.restart(plain.ID()); o.code != 1 || !strings.Contains(o.stderr, "wrap CLIENT -- --hibernate 30m") || plain.lastServer() != server {
		t.Errorf("without a front: %+v", o)
	}
	plain.echo(1)
	plain.closeStdin()
	plain.Wait()
	plain.Gone()

	lazy := greeted(t, setup{Flags: sleepy()}, "serve")
	lazy.asleep(1)
	if o := lazy.restart(lazy.ID()); o.code != 0 || !strings.Contains(o.stdout, "the next message starts the server") {
		t.Errorf("asleep: %+v", o)
	}
	lazy.echo(1)
	lazy.farewell()

	if o := lazy.restart("--name=none"); o.code != 2 || !strings.Contains(o.stderr, "no living session") {
		t.Errorf("none: %+v", o)
	}
	if o := lazy.restart(); o.code != 2 || !strings.Contains(o.stderr, "restart needs a SESSION") {
		t.Errorf("no word: %+v", o)
	}
}

// A new version that does not start is reported, and the session goes on: the next message tries again.
func TestRestartFails(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{Flags: polite("--hibernate=1h")}, "serve")
	s.mode("crash=3")
	if o := s.restart(s.ID()); o.code != 1 || !strings.Contains(o.stderr, "exited with code 3") {
		t.Errorf("%+v", o)
	}
	s.mode("")
	if o := s.restart(s.ID()); o.code != 0 { // Once more, and without the pause.
		t.Errorf("%+v", o)
	}
	s.echo(1)
	s.farewell()
}

// The server is started again when a file has changed that --restart-on names, or a directory, and not for others.
func TestRestartOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	built, other, src := filepath.Join(dir, "server"), filepath.Join(dir, "other"), t.TempDir()
	s := greeted(t, setup{Flags: polite("--restart-on="+built, "--restart-on", src)}, "serve", "daemon")
	change := func(path string) {
		t.Helper()
		ok(t, os.WriteFile(path+".new", []byte("x"), 0o600))
		ok(t, os.Rename(path+".new", path))
	}
	restarts := 0
	for _, path := range []string{built, filepath.Join(src, "a"), built} {
		change(other)
		before := s.lastServer()
		s.echo(1)
		change(path)
		restarts++
		testkit.Until(t, "another server", func() bool { r := s.sleeper(); return r.Restarts == restarts && r.State == "running" })
		if s.lastServer() == before {
			t.Error("the server is the same")
		}
		s.echo(2)
	}
	s.farewell()
	for _, flags := range [][]string{{"--restart-on=" + dir + "/none/x"}, {"--share", "--restart-on=" + dir}} {
		if o := (caller{runtime: t.TempDir()}).run(t, append(append([]string{"run"}, flags...), "--", "true")...); o.code != 125 || !strings.Contains(o.stderr, "--restart-on") {
			t.Errorf("%v: %+v", flags, o)
		}
	}
}

// The sessions of a shared server go on with another one.
func TestShareRestart(t *testing.T) {
	t.Parallel()
	name := "--name=restart-" + strconv.Itoa(os.Getpid()) // root sees the sessions of others, too
	s := share(t, name)
	a, b := s.client(), s.client()
	a.echo()
	a.write(toolCall(77, "hold", ""))
	testkit.Until(t, "held", func() bool { return s.received(`"hold"`) })
	if out := s.tether("restart", name, "--force"); !strings.Contains(out, "restarted ") {
		t.Errorf("%s", out)
	}
	if r := a.answer(77); r.Error == nil || !strings.Contains(r.Error.Message, "the server was restarted") {
		t.Errorf("%s, %+v", r.Result, r.Error)
	}
	a.echo()
	b.echo()
	if n := s.starts(); n != 2 {
		t.Errorf("%d servers were started, want 2", n)
	}
	if out := s.tether("restart", name); !strings.Contains(out, "restarted ") {
		t.Errorf("%s", out)
	}
	a.echo()
	b.echo()
	if n := s.starts(); n != 3 {
		t.Errorf("%d servers were started, want 3", n)
	}
	s.end()
}
