package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// A mark that the wrapper inherits, from a session that kept its own gateway, keeps nothing of this session.
func TestInheritedKeepMark(t *testing.T) {
	t.Parallel()
	for _, cgroup := range []string{"auto", "off"} {
		t.Run("cgroup="+cgroup, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{flags: resisting("--cgroup=" + cgroup), env: []string{"MCP_TETHER_KEEP=1"}},
				"serve", "daemon/plain", "setsid,closefds,chdir", "daemon,ignore-term")
			s.gw.kill()
			s.gone()
			if c := s.endedWhole(deathCauses...); len(c.Kept) > 0 {
				t.Errorf("kept = %v", c.Kept)
			}
		})
	}
}

// Marks that were there before are replaced. They give no power over the session that they name.
func TestInheritedMarks(t *testing.T) {
	t.Parallel()
	other := begin(t, setup{flags: polite()}, "serve", "daemon")
	mark := strings.Trim(answerTo(other, "MCP_TETHER_GATEWAY"), `"`)
	for _, marks := range [][2]string{{"", ""}, {"../../rubbish", ":::"}, {other.id(), mark}} {
		env := []string{"MCP_TETHER_SESSION=" + marks[0], "MCP_TETHER_GATEWAY=" + marks[1], "MCP_TETHER_KEPT=*:"}
		s := begin(t, setup{flags: polite(), env: env}, "serve", "daemon")
		if got := answerTo(s, "MCP_TETHER_SESSION"); got != strconv.Quote(s.id()) {
			t.Errorf("the server has session %s, want %q", got, s.id())
		}
		want := regexp.MustCompile(`^"` + strconv.Itoa(s.gw.pid) + `:\d+:[0-9a-f-]{36}:\d+"$`)
		if got := answerTo(s, "MCP_TETHER_GATEWAY"); !want.MatchString(got) {
			t.Errorf("the server has gateway %s, want that of %d", got, s.gw.pid)
		}
		if got := answerTo(s, "MCP_TETHER_KEPT"); got != `""` {
			t.Errorf("the server has patterns %s, want none", got)
		}
		s.gw.kill()
		s.gone()
	}
	s := begin(t, setup{flags: polite("--keep=no*", `--keep=a:\`), env: []string{"MCP_TETHER_KEPT=*:"}}, "serve", "daemon")
	if got, want := answerTo(s, "MCP_TETHER_KEPT"), strconv.Quote(`no*:a\:\\:`); got != want {
		t.Errorf("the server has patterns %s, want %s", got, want)
	}
	s.gw.kill()
	s.gone()
	if !other.whole(4) {
		t.Errorf("a stranger was touched: %v", other.members())
	}
}

// answerTo asks the server for a variable of its environment.
func answerTo(s *session, name string) string {
	s.t.Helper()
	_, result, _ := strings.Cut(s.ask(`{"id":1,"method":"env","name":"`+name+`"}`), `"result":`)
	return strings.TrimSuffix(strings.TrimSpace(result), "}")
}

// What people set for a server written in Go is meant for that server, and reaches it.
func TestGoVariables(t *testing.T) {
	t.Parallel()
	sets := map[string][]string{
		"eager":    {"GODEBUG=asyncpreemptoff=1,madvdontneed=1,nonsense=7", "GOGC=1", "GOTRACEBACK=crash", "GOMAXPROCS=1", "GOMEMLIMIT=1"},
		"nonsense": {"GODEBUG=,,=,x", "GOGC=much", "GOTRACEBACK=please", "GOMAXPROCS=-3"},
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{flags: resisting(), env: set}, "serve", "daemon", "setsid,closefds,clearenv,ignore-term")
			for _, pair := range set {
				key, value, _ := strings.Cut(pair, "=")
				if got := answerTo(s, key); got != strconv.Quote(value) {
					t.Errorf("the server has %s=%s, want %s", key, got, value)
				}
			}
			s.gw.kill()
			s.gone()
			s.endedWhole(deathCauses...)
		})
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		argv func(s *session) []string
		want string
	}{
		{"empty, absolute command", func(s *session) []string { return s.wrap(nil, "/bin/sh", "-c", "exit 7") }, "exit 7"},
		{"empty, command by name", func(s *session) []string { return s.wrap(nil, "sh", "-c", "exit 7") }, "exit 127"},
		{"unset, command by name", func(s *session) []string {
			return append([]string{"/usr/bin/env", "-u", "PATH"}, s.wrap(nil, "sh", "-c", "exit 7")...)
		}, "exit 7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			s.spawn(setup{bare: true, env: []string{"PATH="}, keys: []string{"dir=" + s.dir}}, c.argv(s)...)
			wantExit(t, s.wait(), c.want)
			s.gone()
		})
	}
}

// The longest single argument that Linux takes, and a mebibyte of them in all.
func TestLongArguments(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	argv := []string{"/bin/sh", "-c", `sleep 1000 & setsid sleep 1000 & echo $# ${#1}; exec cat`, "sh", strings.Repeat("x", 128<<10-1)}
	for range 14 {
		argv = append(argv, strings.Repeat("y", 64<<10))
	}
	s.spawn(setup{flags: quick()}, argv...)
	if got := strings.TrimSpace(s.read()); got != "15 131071" {
		t.Fatalf("the server has %q", got)
	}
	for s.ids = s.records(); len(s.ids) == 0; s.ids = s.records() {
		s.ask("is it written yet?")
	}
	record := filepath.Join(s.runtime, "mcp-tether", s.id()+".json")
	if st, err := os.Stat(record); err != nil || st.Size() > 64<<10 {
		t.Errorf("the record is larger than anybody reads (64 KiB): %d, %v", st.Size(), err)
	}
	s.gw.kill()
	s.gone()
	s.endedWhole(deathCauses...)
}

// A wrapper in a wrapper: any of the six processes, or the gateway, may end first.
func TestNested(t *testing.T) {
	t.Parallel()
	kill := func(pick func([]int) int) func(*session, []int) {
		return func(_ *session, chain []int) { _ = syscall.Kill(pick(chain), syscall.SIGKILL) }
	}
	at := func(i int) func([]int) int { return func(chain []int) int { return chain[i] } }
	ends := map[string]func(s *session, chain []int){
		"gateway killed":          func(s *session, _ []int) { s.gw.kill() },
		"outer terminated":        func(s *session, _ []int) { s.signal(syscall.SIGTERM) },
		"inner terminated":        func(_ *session, chain []int) { _ = syscall.Kill(chain[2], syscall.SIGTERM) },
		"outer supervisor killed": kill(at(1)),
		"inner supervisor killed": kill(at(3)),
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			if name != "gateway killed" {
				testkit.Long(t)
			}
			t.Parallel()
			testNested(t, []string{"auto", "off"}[len(name)%2], end)
		})
	}
}

func testNested(t *testing.T, cgroup string, end func(*session, []int)) {
	s := startGateway(t).newSession()
	inner := *s
	inner.log = filepath.Join(s.dir, "inner")
	// The outer one leaves the inner one the time to finish, however busy the machine. An inner supervisor that is
	// killed leaves its record for reap.
	outerFlags := []string{"--cgroup=" + cgroup, "--eof-grace=25s", "--term-grace=25s"}
	s.spawn(setup{flags: outerFlags}, inner.wrap(resisting("--cgroup="+cgroup),
		node(s.dir, "serve", "daemon/plain", "setsid,closefds,clearenv,chdir", "daemon,ignore-term")...)...)
	s.waitReady()
	testkit.Until(t, "the records of both", func() bool { return len(s.records()) == 2 })
	s.ids = s.records()
	chain := []int{s.pid}
	for range 3 {
		chain = append(chain, s.below(chain[len(chain)-1]))
	}
	end(s, append(chain, s.server))
	s.gone()
	for _, one := range []*session{s, &inner} {
		if c := one.ended(); len(c.Survivors) > 0 || *c.Leaked {
			t.Errorf("survivors = %v, leaked = %v", c.Survivors, *c.Leaked)
		}
	}
}
