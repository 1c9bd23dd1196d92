package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// A server that has work in it does not sleep, although nobody asks it for anything. See work in fixture/work.go.

// A workCase is such work. why is in the reason that the log gives.
type workCase struct{ name, why string }

func workCases() []workCase {
	return []workCase{
		{"lock", "holds a lock on "}, {"write", " open for writing"}, {"listen", "listens on a socket (tcp)"},
		{"listen-unix", "listens on a socket (unix)"}, {"connect", "is connected by a socket (tcp)"},
		{"connect-unix", "is connected by a socket (unix)"}, {"child", "was started"}, {"spin", "has used a processor for "},
	}
}

// peer listens for a server that is to be connected to something outside of its tree.
func peer(t *testing.T, what string) string {
	t.Helper()
	network, address := "tcp", "127.0.0.1:0"
	if strings.HasSuffix(what, "unix") {
		network, address = "unix", "@"+t.TempDir()
	}
	l, err := net.Listen(network, address)
	ok(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// keptAwake waits until the session is kept awake again and again for this reason, and returns what it was like then.
func (s *session) keptAwake(why string) sleeper {
	s.t.Helper()
	last := func() bool {
		all := s.whys()
		return len(all) > 1 && strings.Contains(all[len(all)-1], why) && strings.Contains(all[len(all)-2], why)
	}
	s.until("kept awake because it "+why+", but for "+strings.Join(s.whys(), "; "), last)
	r := s.sleeper()
	if r.State != "running" || !strings.Contains(s.rawRecord(s.ID()), `"awake":`) {
		s.t.Errorf("kept awake, and the record says: %s", s.rawRecord(s.ID()))
	}
	if o := (caller{runtime: s.Runtime}).run(s.t, "ps"); !strings.Contains(o.stdout, ", awake: ") || !strings.Contains(o.stdout, why) {
		s.t.Errorf("ps does not say why it stays awake:\n%s%s", o.stdout, o.stderr)
	}
	return r
}

// The control is that the same server sleeps once its work has ended, and that it then is as if it had never had any.
func TestHibernateNeverWithWork(t *testing.T) {
	t.Parallel()
	for i, c := range workCases() {
		t.Run(c.name, func(t *testing.T) {
			sample(t, 5)
			t.Parallel()
			flags := sleepy("--cgroup=" + []string{"auto", "off"}[i%2])
			if c.name == "spin" {
				flags = append(flags, "--hibernate=2s") // Beside many others it gets little of a processor.
			}
			s := greeted(t, setup{Flags: flags}, "serve", "daemon")
			s.wantAnswer(s.Ask(toolCall(1, c.name, peer(t, c.name))), 1)
			before := s.keptAwake(c.why)
			s.Write(release + "\n")
			s.asleep(before.Sleeps + 1)
			if strings.Contains(s.rawRecord(s.ID()), `"awake":`) {
				t.Errorf("it sleeps, and the record still says why not: %s", s.rawRecord(s.ID()))
			}
			s.echo(2)
			s.farewell()
		})
	}
}

// What was there when the server met its client does not count, nor what has no other end outside of the tree. Nothing counts
// with --hibernate-anyway.
func TestHibernateInSpiteOfHoldings(t *testing.T) {
	t.Parallel()
	for _, had := range []string{"lock", "listen", "child"} {
		t.Run("had/"+had, func(t *testing.T) {
			sample(t, 3)
			t.Parallel()
			s := startGateway(t).newSession()
			s.mode("had=" + had)
			s.Spawn(setup{Flags: sleepy()}, fixture, "mcp", s.Dir, "-", "0", "serve", "daemon")
			s.greet()
			s.IDs = s.Records()
			for n := range 2 {
				s.asleep(n + 1)
				s.echo(n + 1)
			}
			s.farewell()
		})
	}
	for work, env := range map[string][]string{"pair": nil, "connect": {"MCP_TETHER_HIBERNATE_ANYWAY=1"}} {
		t.Run(work, func(t *testing.T) {
			testkit.Long(t)
			t.Parallel()
			sleepsAtWork(t, work, env...)
		})
	}
}

// sleepsAtWork has a server begin work while a call keeps it awake, and waits for its sleep after that.
func sleepsAtWork(t *testing.T, work string, env ...string) {
	t.Helper()
	s := greeted(t, setup{Flags: sleepy(), Env: env}, "serve", "daemon")
	s.hold(1)
	before := s.sleeper()
	s.wantAnswer(s.Ask(toolCall(2, work, peer(t, work))), 2)
	s.Write(fmt.Sprintf(cancelRequest, 1) + "\n")
	s.asleep(before.Sleeps + 1)
	s.farewell()
}

// A process of the tree that cannot be looked at may have work.
func TestHibernateNeverWithHiddenProcess(t *testing.T) {
	testkit.Long(t)
	testkit.Need(t, testkit.Root)
	t.Parallel()
	for _, name := range []string{"hidden", "seen"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := []string{"serve", "setsid,setuid,comm=" + setuidCopy(t)}
			if name == "seen" {
				tree[1] = "setsid"
			}
			s := world{steps: []string{"hidepid"}, uid: nobody}.gateway(t).mcpSession(setup{Flags: sleepy("--cgroup=off", politeRoot)}, tree[0], tree[1:]...)
			s.greet()
			s.IDs = s.Records()
			if name == "seen" {
				s.asleep(1)
			} else {
				s.until("kept awake", func() bool { return strings.Contains(strings.Join(s.whys(), ";"), "cannot be looked at") })
			}
			s.closeStdin()
			s.Wait()
			s.EndAll()
		})
	}
}
