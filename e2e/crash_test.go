package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
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
			if left := s.Members(); len(left) != 1 {
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

// A client that closes its stream while what a crashed server has left is being ended still gets its answer. Seen to fail where
// the end of the stream ends the session at once.
func TestCrashThenClosed(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{Flags: []string{"--on-crash=restart", "--term-grace=1h"}}, "serve", "daemon,ignore-term")
	s.Write(toolCall(7, "die", "3") + "\n")
	s.awaitState(t, "falling-asleep")
	s.closeStdin()
	s.killTree()
	s.wantError(strings.TrimSpace(s.ReadToEnd()), 7, "exit code 3")
	wantExit(t, s.Wait(), "exit 0")
	s.Gone()
	s.EndedWhole("stdin-closed")
}

// A server whose state cannot be given to another ends the session when it dies, as without the flag.
// Seen to fail where nothing stands in the way of another server: the session goes on.
func TestCrashThatCannotBeMended(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s := restarting(t)
	s.wantAnswer(s.Ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, strings.Repeat("x", 300<<10))), 1)
	s.Write(toolCall(7, "die", "3") + "\n")
	s.wantError(strings.TrimSpace(s.ReadToEnd()), 7, "exit code 3")
	wantExit(t, s.Wait(), "exit 3")
	s.Gone()
	s.EndedWhole("server-exited")
	testkit.Until(t, "logged", func() bool { return len(s.Events("the server cannot be restarted")) == 1 })
}
