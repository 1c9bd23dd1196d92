package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Marks that were there before are replaced. They give no power over the session that they name.
func TestInheritedMarks(t *testing.T) {
	t.Parallel()
	other := begin(t, setup{Flags: polite()}, "serve", "daemon")
	mark := strings.Trim(answerTo(other, "MCP_TETHER_GATEWAY"), `"`)
	for _, marks := range [][2]string{{"", ""}, {"../../rubbish", ":::"}, {other.ID(), mark}} {
		env := []string{"MCP_TETHER_SESSION=" + marks[0], "MCP_TETHER_GATEWAY=" + marks[1], "MCP_TETHER_KEPT=1"}
		s := begin(t, setup{Flags: polite(), Env: env}, "serve", "daemon")
		if got := answerTo(s, "MCP_TETHER_SESSION"); got != strconv.Quote(s.ID()) {
			t.Errorf("the server has session %s, want %q", got, s.ID())
		}
		want := regexp.MustCompile(`^"` + strconv.Itoa(s.gw.PID) + `:\d+:[0-9a-f-]{36}:\d+"$`)
		if got := answerTo(s, "MCP_TETHER_GATEWAY"); !want.MatchString(got) {
			t.Errorf("the server has gateway %s, want that of %d", got, s.gw.PID)
		}
		if got := answerTo(s, "MCP_TETHER_KEPT"); got != `""` {
			t.Errorf("the server is told of kept processes: %s", got)
		}
		s.gw.Kill()
		s.Gone()
	}
	s := begin(t, setup{Flags: polite("--keep=no*", "--keep=a"), Env: []string{"MCP_TETHER_KEPT=0"}}, "serve", "daemon")
	if got, want := answerTo(s, "MCP_TETHER_KEPT"), `"1"`; got != want {
		t.Errorf("the server has %s, want %s", got, want)
	}
	s.gw.Kill()
	s.Gone()
	if !other.whole(4) {
		t.Errorf("a stranger was touched: %v", other.Members())
	}
}

// answerTo asks the server for a variable of its environment.
func answerTo(s *session, name string) string {
	s.t.Helper()
	_, result, _ := strings.Cut(s.Ask(`{"id":1,"method":"env","name":"`+name+`"}`), `"result":`)
	return strings.TrimSuffix(strings.TrimSpace(result), "}")
}

// The longest single argument that Linux takes, and a mebibyte of them in all.
func TestLongArguments(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	argv := []string{"/bin/sh", "-c", `sleep 1000 & setsid sleep 1000 & echo $# ${#1}; exec cat`, "sh", strings.Repeat("x", 128<<10-1)}
	for range 14 {
		argv = append(argv, strings.Repeat("y", 64<<10))
	}
	s.Spawn(setup{Flags: quick()}, argv...)
	if got := strings.TrimSpace(s.Read()); got != "15 131071" {
		t.Fatalf("the server has %q", got)
	}
	for s.IDs = s.Records(); len(s.IDs) == 0; s.IDs = s.Records() {
		s.Ask("is it written yet?")
	}
	record := filepath.Join(s.Runtime, "mcp-tether", s.ID()+".json")
	if st, err := os.Stat(record); err != nil || st.Size() > 64<<10 {
		t.Errorf("the record is larger than anybody reads (64 KiB): %d, %v", st.Size(), err)
	}
	s.gw.Kill()
	s.Gone()
	s.EndedWhole(deathCauses...)
}

// A wrapper in a wrapper: any of the six processes, or the gateway, may end first.
func TestNested(t *testing.T) {
	t.Parallel()
	kill := func(pick func([]int) int) func(*session, []int) {
		return func(_ *session, chain []int) { _ = syscall.Kill(pick(chain), syscall.SIGKILL) }
	}
	at := func(i int) func([]int) int { return func(chain []int) int { return chain[i] } }
	ends := map[string]func(s *session, chain []int){
		"gateway killed":          func(s *session, _ []int) { s.gw.Kill() },
		"outer terminated":        func(s *session, _ []int) { s.Signal(syscall.SIGTERM) },
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
	inner := s.Twin()
	inner.Log = filepath.Join(s.Dir, "inner")
	// The outer one leaves the inner one the time to finish, however busy the machine. An inner supervisor that is
	// killed leaves its record for reap.
	outerFlags := []string{"--cgroup=" + cgroup, "--eof-grace=25s", "--term-grace=25s"}
	s.Spawn(setup{Flags: outerFlags}, inner.Wrap(resisting("--cgroup="+cgroup),
		node(s.Dir, "serve", "daemon/plain", "setsid,closefds,clearenv,chdir", "daemon,ignore-term")...)...)
	s.WaitReady()
	testkit.Until(t, "the records of both", func() bool { return len(s.Records()) == 2 })
	s.IDs = s.Records()
	chain := []int{s.PID}
	for range 3 {
		up := chain[len(chain)-1]
		testkit.Until(t, "what started the session has ended", func() bool { return len(childrenOf(up)) == 1 })
		chain = append(chain, s.below(up))
	}
	end(s, append(chain, s.Server))
	s.Gone()
	for _, one := range []*stage.Session{s.Session, inner} {
		if c := one.Ended(); len(c.Survivors) > 0 || *c.Leaked {
			t.Errorf("survivors = %v, leaked = %v", c.Survivors, *c.Leaked)
		}
	}
}
