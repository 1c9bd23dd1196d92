package e2e

import (
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// When a server dies, or one that sleeps cannot be had again, whoever waits is told.

// A deadly is a way for a server to die with requests that nobody else will answer.
type deadly struct {
	name string
	kill func(s *session)
	owed []int // the requests without an answer, in order
	exit string
}

var deadlies = []deadly{
	{
		// The line that it has begun does not reach the client.
		"exit amid a line", func(s *session) {
			s.wantAnswer(s.Ask(toolCall(4, "half", "")), 4)
			s.Write(toolCall(7, "hold", "") + "\n" + toolCall(5, "hold", "") + "\n" + toolCall(6, "die", "0") + "\n")
		}, []int{7, 5, 6}, "exit 0",
	},
	{
		"SIGKILL", func(s *session) {
			s.wantAnswer(s.Ask(toolCall(6, "echo", "")), 6)
			s.hold(7)
			_ = syscall.Kill(s.lastServer(), syscall.SIGKILL)
		}, []int{7}, "exit 137",
	},
}

// The session ends as it would without sleep, the first server's or a woken one's; each request is answered once, and
// sent once.
func TestHibernateServerDies(t *testing.T) {
	t.Parallel()
	for i, d := range deadlies {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			d.test(t, i > 0)
		})
	}
}

func (d deadly) test(t *testing.T, woken bool) {
	s := greeted(t, setup{Flags: sleepy()}, "serve", "daemon")
	if woken {
		s.asleep(1)
		s.echo(1)
	}
	d.kill(s)
	lines := strings.Split(strings.TrimSuffix(s.ReadToEnd(), "\n"), "\n")
	if len(lines) != len(d.owed) {
		t.Fatalf("the client got %q, want errors for %v", lines, d.owed)
	}
	for i, id := range d.owed {
		s.wantError(lines[i], id, "the server ended ("+strings.Replace(d.exit, "exit", "exit code", 1)+")")
	}
	wantExit(t, s.Wait(), d.exit)
	s.Gone()
	s.EndedWhole("server-exited")
	// What killed it is the last that any server has received, and none was started after it.
	if got := s.got(); strings.HasPrefix(got[len(got)-1], "start ") || !strings.Contains(got[len(got)-1], `"tools/call"`) || woken && s.starts() < 2 {
		t.Errorf("the servers got %q", got)
	}
}

// duds are the ways of a server that cannot be woken, by the cgroup of its session, and what its caller is told.
var duds = map[string]struct{ mode, why string }{
	"auto": {"crash=9", "exited with code 9"},
	"off":  {"mute,stay", "did not answer the handshake within 30s"},
}

// Whoever wakes a server that cannot be had gets an error that says why, and later ones try again.
func TestHibernateWakeFails(t *testing.T) {
	t.Parallel()
	for cgroup, d := range duds {
		t.Run(d.mode, func(t *testing.T) {
			if cgroup == "off" {
				testkit.Long(t)
			}
			t.Parallel()
			wakeFails(t, cgroup, d.mode, d.why)
		})
	}
}

func wakeFails(t *testing.T, cgroup, mode, why string) {
	s := greeted(t, setup{Flags: sleepy(quick("--cgroup=" + cgroup)...)}, "serve", "daemon")
	s.asleep(1)
	s.mode(mode)
	// A notification and a request that wait for it, then, for the next try, one that comes in two parts.
	s.Write(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}` + "\n" + toolCall(7, "echo", "") + "\n")
	s.wantError(s.Read(), 7, why)
	s.until("asleep after a failure", func() bool { return s.sleeper().State == "asleep" })
	if left := s.Members(); len(left) > 2 { // waiter and front
		t.Errorf("the failure left %v", left)
	}
	half := toolCall(8, "echo", "")
	s.Write(half[:20])
	s.Write(half[20:] + "\n")
	s.wantError(s.Read(), 8, why)
	s.mode("")
	// The pause is longer now. Until a try is made, each call is answered at once.
	id := 20
	testkit.Until(t, "a server again", func() bool {
		line := s.Ask(toolCall(id, "echo", ""))
		id++
		if s.parse(line).Error == nil {
			return true
		}
		s.wantError(line, id-1, why)
		return false
	})
	s.hold(9)
	if n := len(s.Events("server could not be woken")); n != 2 {
		t.Errorf("%d log lines about it, want 2", n)
	}
	// The answer may be here before the record is written.
	s.until("woken once", func() bool { r := s.sleeper(); return r.Wakes == 1 && r.State == "running" && r.Server.PID > 0 })
	if cgroup != "off" && nestable() && stage.CgroupLeaf(s.Behind().ID) == "" {
		t.Error("the woken server has no cgroup")
	}
	s.letGo(9)
	s.neverTwice()
	if strings.Contains(why, "handshake") { // A server that was there could not take the place of the last one.
		if out := (caller{runtime: s.Runtime}).run(s.t, "ps").stdout; !strings.Contains(s.sleeper().Sleepless, why) || !strings.Contains(out, "sleeps no more: ") {
			s.t.Errorf("the record says %q, and ps\n%s", s.sleeper().Sleepless, out)
		}
	} else {
		s.until("asleep", func() bool { return s.sleeper().State == "asleep" })
	}
	s.echo(10)
	s.farewell()
}

// neverTwice: no server has got what was answered with an error.
func (s *session) neverTwice() {
	s.t.Helper()
	for _, line := range s.got() {
		if strings.Contains(line, `"id":7,`) || strings.Contains(line, `"id":8,`) || strings.Contains(line, "list_changed") {
			s.t.Errorf("a server got %s", line)
		}
	}
}

// The session ends when its server has become another one and lacks what the client relies on. So the gateway starts a
// fresh session. The call that woke the server is answered.
// Seen to fail where that counts as a wake that may succeed later: the session goes on, and its client waits.
func TestHibernateServerChanged(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{Flags: sleepy()}, "serve", "daemon")
	s.asleep(1)
	s.mode("caps")
	s.Write(toolCall(7, "echo", "") + "\n")
	s.wantError(strings.TrimSuffix(s.ReadToEnd(), "\n"), 7, "capabilities.logging is missing")
	// Its input ends as SIGTERM is sent: it dies of that, or is quicker.
	wantExit(t, s.Wait(), "exit 143", "exit 0")
	s.Gone()
	s.EndedWhole("server-changed")
}
