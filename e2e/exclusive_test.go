package e2e

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A server that can be there only once: it holds a lock, and lives on until it is killed.

// locked starts one, in the shared runtime directory of the gateway, and does not wait for it. Its grace is longer than a
// busy machine needs for another session beside it; the test ends it by endServer.
func (g *gateway) locked(t *testing.T, dir string, flags ...string) *session {
	t.Helper()
	s := g.newSession()
	s.Runtime = dir
	s.Spawn(setup{Flags: append([]string{"--eof-grace=100ms", "--term-grace=20s"}, flags...)}, fixture, "locked", filepath.Join(dir, "only"))
	return s
}

// endServer ends the server in the midst of its grace.
func (s *session) endServer() { _ = syscall.Kill(s.Server, syscall.SIGKILL) }

// wantLock reads what the server says of its lock.
func (s *session) wantLock(want string) {
	s.t.Helper()
	got, pid, _ := strings.Cut(strings.TrimSpace(s.Read()), " ")
	if got != want {
		s.t.Errorf("server %s: lock %s, want %s", s.Name, got, want)
	}
	s.Server = number(s.t, pid)
}

// replacements are sessions that start while another one ends, and what they find.
var replacements = []struct {
	name          string
	first, second []string
	other         bool // by another gateway
	want          string
}{
	// The first uses up its grace, or the second would wait for nothing.
	{"same key", []string{"--exclusive=k", "--term-grace=3s"}, []string{"--exclusive=k"}, false, "got"},
	{"no key", nil, nil, false, "busy"}, // the negative control
	{"no key but the first's", []string{"--exclusive=k"}, nil, false, "busy"},
	{"other key", []string{"--exclusive=k"}, []string{"--exclusive=l"}, false, "busy"},
	{"other gateway", []string{"--exclusive=k"}, []string{"--exclusive=k"}, true, "busy"},
}

func TestExclusive(t *testing.T) {
	t.Parallel()
	for i, r := range replacements {
		end := []string{"stdin closed", "terminated"}[i%2]
		t.Run(r.name+"/"+end, func(t *testing.T) {
			sample(t, 4)
			t.Parallel()
			g, dir := startGateway(t), t.TempDir()
			first := g.locked(t, dir, r.first...)
			first.wantLock("got")
			g2 := g
			if r.other {
				g2 = startGateway(t)
			}
			if end == "terminated" {
				first.Signal(syscall.SIGTERM)
			} else {
				first.closeStdin()
			}
			first.awaitState(t, "ending")
			second := g2.locked(t, dir, r.second...)
			second.wantLock(r.want)
			if alive := stage.Describe(first.Server).State != ""; alive != (r.want == "busy") {
				t.Errorf("when the second was up, the first lived: %v", alive)
			}
			if r.want == "busy" {
				first.endServer()
			}
			first.WaitDead()
			g2.Kill()
			second.endServer()
			second.WaitDead()
		})
	}
}

// awaitState returns when a record in the session's runtime directory is in the state.
func (s *session) awaitState(t *testing.T, state string) {
	t.Helper()
	testkit.Until(t, "a session that is "+state, func() bool {
		for _, id := range s.Records() {
			if strings.Contains(s.rawRecord(id), `"state":"`+state+`"`) {
				return true
			}
		}
		return false
	})
}

// A session that lives is neither waited for nor touched.
func TestExclusiveBesideLiving(t *testing.T) {
	t.Parallel()
	g, dir := startGateway(t), t.TempDir()
	first := g.locked(t, dir, "--exclusive=k")
	first.wantLock("got")
	second := g.locked(t, dir, "--exclusive=k")
	second.wantLock("busy")
	if stage.Describe(first.Server).State == "" {
		t.Error("the first was touched")
	}
	g.Kill()
	first.endServer()
	second.endServer()
	first.WaitDead()
	second.WaitDead()
}

// A session that waits for the last one ends when its own end comes first, and starts nothing.
func TestExclusiveEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	ends := map[string]func(s *session){
		"gateway killed": func(s *session) { s.gw.Kill() },
		"terminated":     func(s *session) { s.Signal(syscall.SIGTERM) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			if name == "terminated" {
				testkit.Long(t)
			}
			t.Parallel()
			g, dir := startGateway(t), t.TempDir()
			first := g.locked(t, dir, "--exclusive=k")
			first.wantLock("got")
			first.closeStdin()
			first.awaitState(t, "ending")
			second := g.locked(t, dir, "--exclusive=k")
			testkit.Until(t, "a second lease", func() bool {
				records, _ := filepath.Glob(filepath.Join(second.recordDir(), "*.json"))
				return len(records) == 2
			})
			end(second)
			second.WaitDead()
			if !first.Alive() {
				t.Error("the first was gone already, so nothing was waited for")
			}
			g.Kill()
			first.endServer()
			first.WaitDead()
			first.NothingLeft()
		})
	}
}

// A session whose server alone is ending lives on, so it is not waited for either. That holds after a crash that left a
// process, and after a wake that failed. Seen to fail where a record says "ending" of such a session. Then the second
// session waits until the process of the first is gone, which the test ends only later.
func TestExclusiveBesideServerThatEndsAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flag string
		end  func(s *session)
	}{
		"crash": {"--on-crash=restart", func(s *session) { s.Write(toolCall(7, "die", "3") + "\n") }},
		"failed wake": {"--hibernate=" + limit.String(), func(s *session) {
			s.awaitState(s.t, "falling-asleep")
			s.killTree()
			s.asleep(1)
			s.mode("refuse")
			s.Write(toolCall(7, "echo", "") + "\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "crash" {
				testkit.Long(t)
			}
			t.Parallel()
			key := []string{"--exclusive=k", "--term-grace=1h", "--log-level=debug"}
			first := greeted(t, setup{Flags: append(key, c.flag)}, "serve", "daemon,ignore-term")
			c.end(first)
			first.awaitState(t, "falling-asleep")
			if r := first.rawRecord(first.ID()); strings.Contains(r, `"cause"`) {
				t.Errorf("the record names a cause: %s", r)
			}
			second := first.gw.newSession()
			second.Runtime = first.Runtime
			second.Spawn(setup{Flags: key}, fixture, "mcp", second.Dir, "-", "0", "serve")
			second.greet()
			if !first.Life.Held() {
				t.Error("the first's process was gone, so nothing was tested")
			}
			first.killTree()
			first.wantError(first.Read(), 7, "mcp-tether: the server")
			first.gw.Kill()
			first.WaitDead()
			second.WaitDead()
			first.NothingLeft()
		})
	}
}

// killTree ends what the server has started, and the server.
func (s *session) killTree() {
	s.t.Helper()
	wrappers := s.Wrappers() // they may end with the first that is killed
	for _, p := range stage.Holders(s.Life.Path) {
		if !slices.ContainsFunc(wrappers, func(w proc) bool { return w.PID == p.PID }) {
			// It may have ended meanwhile.
			if err := syscall.Kill(p.PID, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
				s.ok(err)
			}
		}
	}
}
