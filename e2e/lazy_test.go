package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

// A lazy session starts its server when it is needed, and answers before from what an earlier session has seen. The server is
// the fixture's that speaks MCP, see fixture/mcp.go.

const listTools = `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`

// lazySession starts a lazy session with a cache of its own.
func lazySession(t *testing.T, mode string, flags ...string) *session {
	t.Helper()
	s := startGateway(t).newSession()
	s.ok(os.Mkdir(s.cacheHome(), 0o700))
	s.mode(mode)
	s.spawnLazy(flags...)
	return s
}

func (s *session) cacheHome() string { return filepath.Join(s.Dir, "cache") }

func (s *session) spawnLazy(flags ...string) {
	s.t.Helper()
	s.Spawn(setup{Flags: append(polite("--lazy", "--log-level=debug"), flags...), Env: []string{"XDG_CACHE_HOME=" + s.cacheHome()}},
		fixture, "mcp", s.Dir, "-", "0", "serve")
}

// twin starts one more session of the same server.
func (s *session) twin(flags ...string) *session {
	s.t.Helper()
	other := &session{Session: s.Twin(), gw: s.gw, t: s.t}
	other.spawnLazy(flags...)
	return other
}

// meet is the handshake and the list of tools, which it returns.
func (s *session) meet() string {
	s.t.Helper()
	s.greet()
	line := s.Ask(fmt.Sprintf(listTools, 1))
	s.wantAnswer(line, 1)
	return line
}

// leave ends the session by the end of its standard input.
func (s *session) leave() {
	s.t.Helper()
	s.closeStdin()
	wantExit(s.t, s.Wait(), "exit 0")
	s.Gone()
}

// learn has a first session fill the cache.
func learn(t *testing.T, mode string, flags ...string) *session {
	t.Helper()
	s := lazySession(t, mode, flags...)
	s.meet()
	s.leave()
	if s.starts() != 1 {
		t.Fatalf("a server that nothing is known of was started %d times", s.starts())
	}
	return s
}

// entries are the files of the cache.
func (s *session) entries() []string {
	all, _ := filepath.Glob(filepath.Join(s.cacheHome(), "mcp-tether", "*.json"))
	return all
}

func (s *session) wantStarts(n int) {
	s.t.Helper()
	if got := s.starts(); got != n {
		s.t.Errorf("%d servers were started, want %d", got, n)
	}
}

// What is known is answered without a server, and the first message that needs one starts it.
func TestLazy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write string // after handshake and list
		reads int
		wakes bool
	}{
		"list again":   {fmt.Sprintf(listTools, 7) + "\n" + fmt.Sprintf(cancelRequest, 1), 1, false},
		"call":         {toolCall(7, "echo", "x"), 1, true},
		"notification": {`{"jsonrpc":"2.0","method":"test/release"}`, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "notification" {
				testkit.Long(t)
			}
			t.Parallel()
			first := lazySession(t, "")
			list := first.meet()
			first.leave()
			s := first.twin()
			if again := s.meet(); s.parse(again).Error != nil || string(s.parse(again).Result) != string(s.parse(list).Result) {
				t.Errorf("the list was %s and is told as %s", list, again)
			}
			s.WaitRecord()
			if state := s.sleeper().State; state != "not-started" {
				t.Errorf("the session is %q", state)
			}
			if o := (caller{runtime: s.Runtime}).run(t, "ps"); !strings.Contains(o.stdout, "not-started") {
				t.Errorf("ps shows\n%s", o.stdout)
			}
			s.wantStarts(1)
			s.Write(c.write + "\n")
			for range c.reads {
				s.wantAnswer(s.Read(), 7)
			}
			if c.wakes {
				s.until("started", func() bool { return s.starts() == 2 })
				s.echo(8)
				if got := s.gotOf(2); len(got) < 3 || got[0] != initialize(version) || got[1] != initialized {
					t.Errorf("the server got %q", got)
				}
			}
			s.leave()
			if !c.wakes {
				s.wantStarts(1)
			}
		})
	}
}

// A first server that fails at once ends the session, as it does without --lazy.
func TestLazyFirstServerFails(t *testing.T) {
	t.Parallel()
	s := lazySession(t, "crash=9")
	s.Write(initialize(version) + "\n")
	s.wantError(strings.TrimSuffix(s.ReadToEnd(), "\n"), 0, "the server ended (exit code 9)")
	wantExit(t, s.Wait(), "exit 9")
	s.Gone()
	if e := s.entries(); len(e) > 0 {
		t.Errorf("kept of a server that never spoke: %s", e)
	}
}

// Lazy sessions that share look for no host before they need one, and then have one server.
func TestLazyShares(t *testing.T) {
	t.Parallel()
	s := share(t, "--lazy")
	s.env = []string{"XDG_CACHE_HOME=" + t.TempDir()}
	list := func(c *sharer) {
		c.greet(version)
		c.write(fmt.Sprintf(listTools, 100))
		c.answer(100)
	}
	first := s.attach()
	list(first)
	first.close()
	kill(t, s.host(), syscall.SIGTERM)
	s.awaitNone()
	one, two := s.attach(), s.attach()
	list(one)
	list(two)
	if n := s.starts(); n != 1 || len(s.with("\x00__host\x00")) > 0 {
		t.Errorf("%d servers were started for the list that is known", n)
	}
	one.echo()
	two.echo()
	if n := s.starts(); n != 2 {
		t.Errorf("%d servers were started, want one more for both", n)
	}
	s.host()
	one.close()
	two.close()
}
