package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// A server that ends by itself under --on-crash=restart: its calls are answered with an error, and the next message starts
// another. Without the flag the session ends, see TestHibernateServerDies.

// restarting starts such a session, which has met its client.
func restarting(t *testing.T, flags ...string) *session {
	t.Helper()
	return greeted(t, setup{Flags: polite(append(flags, "--on-crash=restart", "--log-level=debug")...)}, "serve", "daemon")
}

// dies has the server end in some way, with the call 7 open, in a session that may hibernate as well.
var dies = map[string]struct {
	kill func(s *session)
	code string
}{
	"--hibernate=0s": {func(s *session) { s.hold(7); _ = syscall.Kill(s.lastServer(), syscall.SIGKILL) }, "exit code 137"},
	"--hibernate=1h": {func(s *session) {
		s.wantAnswer(s.Ask(toolCall(6, "half", "")), 6)
		s.Write(toolCall(7, "die", "1") + "\n")
	}, "exit code 1"},
}

// Each of these ends as it must only with --on-crash=restart: without it the session ends, see TestHibernateServerDies.
// Seen to fail where the crash is not recognised, and where the open call is not answered.
func TestCrashRestarts(t *testing.T) {
	t.Parallel()
	for flag, d := range dies {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			s := restarting(t, flag)
			s.wantAnswer(s.Ask(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`), 1)
			d.kill(s) // A line that it has begun does not reach the client.
			s.wantError(s.Read(), 7, "the server ended ("+d.code+")")
			s.until("without a server", func() bool { r := s.sleeper(); return r.State == "asleep" && r.Server.PID == 0 })
			if left := s.Members(); len(left) > 2 { // waiter and front
				t.Errorf("left of the server: %v", left)
			}
			s.echo(8)
			got := s.gotOf(2)
			if len(got) != 4 || got[0] != initialize(version) || got[1] != initialized || !strings.Contains(got[2], `"level":"error"`) || got[3] != toolCall(8, "echo", "hello") {
				t.Errorf("the second server got %q", got)
			}
			// The answer may be here before the record is written.
			s.until("restarted once", func() bool { r := s.sleeper(); return r.Restarts == 1 && r.Wakes == 0 && r.State == "running" })
			if out := (caller{runtime: s.Runtime}).run(t, "ps").stdout; !strings.Contains(out, "restarted 1") {
				t.Errorf("ps says\n%s", out)
			}
			s.farewell()
		})
	}
}

// However long what a crashed server has left takes to end, its calls are answered at once, and a client that closes its stream
// meanwhile ends the session. Seen to fail where the end of the stream ends the session at once, and where calls wait for the end of
// what is left.
func TestCrashThenClosed(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{Flags: []string{"--on-crash=restart", "--term-grace=1h"}}, "serve", "daemon,ignore-term")
	s.wantError(s.Ask(toolCall(7, "die", "3")), 7, "the server closed its output before it answered")
	s.awaitState(t, "falling-asleep")
	s.closeStdin()
	s.killTree()
	if rest := s.ReadToEnd(); rest != "" {
		t.Errorf("the client also got %q", rest)
	}
	wantExit(t, s.Wait(), "exit 0")
	s.Gone()
	s.EndedWhole("stdin-closed")
}

// A server of which it is not known what it was asked ends the session when it dies, as without the flag: its client does not speak
// in lines. Seen to fail where nothing stands in the way of another server: the session goes on.
func TestCrashThatCannotBeMended(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.Spawn(setup{Flags: polite("--on-crash=restart", "--log-level=debug")}, "/bin/sh", "-c", "read x; echo y; exit 3")
	s.Write("Content-Length: 2\r\n\r\n{}")
	if got := s.ReadToEnd(); got != "y\n" {
		t.Errorf("the client got %q", got)
	}
	wantExit(t, s.Wait(), "exit 3")
	s.Gone()
	s.EndedWhole("server-exited")
	testkit.Until(t, "logged", func() bool { return len(s.Events("the server cannot be restarted")) == 1 })
}

// The next server does not start beside what is left of one whose anchor was killed: that may hold its port or files. Seen to start
// beside it where the session behind the front does not look for the one before it.
func TestCrashWaitsForWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{Flags: polite("--on-crash=restart", "--term-grace=4s", "--eof-grace=4s")}, "serve", "ignore-term")
	first := s.lastServer()
	_ = syscall.Kill(s.Behind().Anchor.PID, syscall.SIGKILL)
	for s.lastServer() == first || s.parse(s.Ask(toolCall(9, "echo", "hello"))).Error != nil {
		s.Ask(toolCall(8, "echo", "hello"))
		pause(50 * time.Millisecond)
	}
	if len(s.Events("server and all that it started ended")) == 0 {
		t.Error("it serves beside what the one before it has left")
	}
	s.farewell()
}
