package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// A server that ends by itself under --on-crash=restart: its calls are answered with an error, and the next message starts
// another. Without the flag the session ends, see TestHibernateServerDies.

// restarting starts such a session, which has met its client.
func restarting(t *testing.T, flags ...string) *session {
	t.Helper()
	return greeted(t, setup{flags: polite(append(flags, "--on-crash=restart", "--log-level=debug")...)}, "serve", "daemon")
}

// dies has the server end in some way, with the call 7 open.
var dies = map[string]struct {
	kill func(s *session)
	code string
}{
	"exit":    {func(s *session) { s.write(toolCall(7, "die", "3") + "\n") }, "exit code 3"},
	"exit 0":  {func(s *session) { s.write(toolCall(7, "die", "0") + "\n") }, "exit code 0"},
	"SIGKILL": {func(s *session) { s.hold(7); _ = syscall.Kill(s.lastServer(), syscall.SIGKILL) }, "exit code 137"},
	"amid a line": {func(s *session) {
		s.wantAnswer(s.ask(toolCall(6, "half", "")), 6)
		s.write(toolCall(7, "die", "1") + "\n")
	}, "exit code 1"},
}

// Each of these ends as it must only with --on-crash=restart: without it the session ends, see TestHibernateServerDies.
// Seen to fail where the crash is not recognised, and where the open call is not answered.
func TestCrashRestarts(t *testing.T) {
	t.Parallel()
	for name, d := range dies {
		for _, flag := range []string{"--hibernate=0s", "--hibernate=1h"} {
			t.Run(name+flag, func(t *testing.T) {
				t.Parallel()
				s := restarting(t, flag)
				s.wantAnswer(s.ask(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`), 1)
				d.kill(s) // A line that it has begun does not reach the client.
				s.wantError(s.read(), 7, "the server ended ("+d.code+")")
				s.until("without a server", func() bool { r := s.sleeper(); return r.State == "asleep" && r.Server.PID == 0 })
				if left := s.members(); len(left) != 1 {
					t.Errorf("left of the server: %v", left)
				}
				s.echo(8)
				got := s.gotOf(2)
				if len(got) != 4 || got[0] != initialize(version) || got[1] != initialized || !strings.Contains(got[2], `"level":"error"`) || got[3] != toolCall(8, "echo", "hello") {
					t.Errorf("the second server got %q", got)
				}
				// The answer may be here before the record is written.
				s.until("restarted once", func() bool { r := s.sleeper(); return r.Restarts == 1 && r.Wakes == 0 && r.State == "running" })
				s.farewell()
			})
		}
	}
}

// A server that dies again and again is started less and less often. Messages wait for a second, and in a longer pause they are
// answered at once.
// Seen to fail without the pause: three servers in 0.3 s.
func TestCrashBacksOff(t *testing.T) {
	t.Parallel()
	s := restarting(t)
	began := time.Now()
	for n := 1; n <= 3; n++ {
		s.until("a server", func() bool { r := s.sleeper(); return n < 3 || r.Restarts == 2 })
		s.write(toolCall(n, "die", "1") + "\n")
		s.wantError(s.read(), n, "exit code 1")
		s.until("without a server", func() bool { return s.sleeper().State == "asleep" })
		if n > 1 {
			s.wantError(s.ask(toolCall(10+n, "echo", "")), 10+n, "next try in")
		}
	}
	// 1 s before the second server, 2 s before the third, 4 s before the fourth.
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("three servers in %v", took)
	}
	s.until("a fourth server, without a message", func() bool { return s.sleeper().Restarts == 3 })
	s.echo(9)
	if took := time.Since(began); took < 7*time.Second {
		t.Errorf("four servers in %v", took)
	}
	// The answer may be here before the record is written.
	s.until("restarted three times", func() bool { return s.sleeper().Restarts == 3 })
	if out := (caller{runtime: s.runtime}).run(t, "ps").stdout; !strings.Contains(out, "restarted 3") {
		t.Errorf("ps says\n%s", out)
	}
	s.farewell()
}

// What ends a session ends it also while there is no server. A server that ends because its input has ended is no
// crash. Seen to fail where the crash is not recognised: the session is over before it is ended.
func TestCrashIsNoEnd(t *testing.T) {
	t.Parallel()
	s := restarting(t)
	s.echo(1)
	s.farewell()
	for name, end := range map[string]func(s *session){
		"stdin":  func(s *session) { s.closeStdin() },
		"signal": func(s *session) { s.signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := restarting(t)
			s.write(toolCall(7, "die", "3") + "\n")
			s.wantError(s.read(), 7, "exit code 3")
			s.until("without a server", func() bool { return s.sleeper().State == "asleep" })
			end(s)
			wantExit(t, s.wait(), map[string]string{"stdin": "exit 0", "signal": "exit 143"}[name])
			s.gone()
			s.endedWhole(map[string]string{"stdin": "stdin-closed", "signal": "signal"}[name])
		})
	}
}

// A client that closes its stream while what a crashed server has left is being ended still gets its answer. Seen to fail where
// the end of the stream ends the session at once.
func TestCrashThenClosed(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{flags: []string{"--on-crash=restart", "--term-grace=1h"}}, "serve", "daemon,ignore-term")
	s.write(toolCall(7, "die", "3") + "\n")
	s.awaitState(t, "falling-asleep")
	s.closeStdin()
	s.killTree()
	s.wantError(strings.TrimSpace(s.readToEnd()), 7, "exit code 3")
	wantExit(t, s.wait(), "exit 0")
	s.gone()
	s.endedWhole("stdin-closed")
}

// A server whose state cannot be given to another ends the session when it dies, as without the flag.
// Seen to fail where nothing stands in the way of another server: the session goes on.
func TestCrashThatCannotBeMended(t *testing.T) {
	t.Parallel()
	s := restarting(t)
	s.wantAnswer(s.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, strings.Repeat("x", 300<<10))), 1)
	s.write(toolCall(7, "die", "3") + "\n")
	s.wantError(strings.TrimSpace(s.readToEnd()), 7, "exit code 3")
	wantExit(t, s.wait(), "exit 3")
	s.gone()
	s.endedWhole("server-exited")
	testkit.Until(t, "logged", func() bool { return len(s.events("the server cannot be restarted")) == 1 })
}
