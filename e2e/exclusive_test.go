//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A server that can be there only once: it holds a lock, and lives on until it is killed.

// locked starts one, in the shared runtime directory of the gateway, and does not wait for it. Its grace is longer than a
// busy machine needs for another session beside it; the test ends it by endServer.
func (g *gateway) locked(t *testing.T, dir string, flags ...string) *session {
	t.Helper()
	s := g.newSession()
	s.runtime = dir
	s.spawn(setup{flags: append([]string{"--eof-grace=100ms", "--term-grace=20s"}, flags...)}, fixture, "locked", filepath.Join(dir, "only"))
	return s
}

// endServer ends the server in the midst of its grace.
func (s *session) endServer() { _ = syscall.Kill(s.server, syscall.SIGKILL) }

// wantLock reads what the server says of its lock.
func (s *session) wantLock(want string) {
	s.t.Helper()
	got, pid, _ := strings.Cut(strings.TrimSpace(s.read()), " ")
	if got != want {
		s.t.Errorf("server %s: lock %s, want %s", s.name, got, want)
	}
	s.server = number(s.t, pid)
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
	for _, r := range replacements {
		for _, end := range []string{"stdin closed", "terminated"} {
			t.Run(r.name+"/"+end, func(t *testing.T) {
				t.Parallel()
				g, dir := startGateway(t), t.TempDir()
				first := g.locked(t, dir, r.first...)
				first.wantLock("got")
				g2 := g
				if r.other {
					g2 = startGateway(t)
				}
				if end == "terminated" {
					first.signal(syscall.SIGTERM)
				} else {
					first.closeStdin()
				}
				first.awaitState(t, "ending")
				second := g2.locked(t, dir, r.second...)
				second.wantLock(r.want)
				if alive := describe(first.server).state != ""; alive != (r.want == "busy") {
					t.Errorf("when the second was up, the first lived: %v", alive)
				}
				if r.want == "busy" {
					first.endServer()
				}
				first.waitDead()
				g2.kill()
				second.endServer()
				second.waitDead()
			})
		}
	}
}

// awaitState returns when a record in the session's runtime directory is in the state.
func (s *session) awaitState(t *testing.T, state string) {
	t.Helper()
	awaitTrue(t, "a session that is "+state, func() bool {
		for _, id := range s.records() {
			if strings.Contains(s.rawRecord(id), `"state":"`+state+`"`) {
				return true
			}
		}
		return false
	})
}

// One that lives is not waited for, nor touched.
func TestExclusiveBesideLiving(t *testing.T) {
	t.Parallel()
	g, dir := startGateway(t), t.TempDir()
	first := g.locked(t, dir, "--exclusive=k")
	first.wantLock("got")
	second := g.locked(t, dir, "--exclusive=k")
	second.wantLock("busy")
	if describe(first.server).state == "" {
		t.Error("the first was touched")
	}
	g.kill()
	first.endServer()
	second.endServer()
	first.waitDead()
	second.waitDead()
}

// Who waits for the last session ends when its own end comes first, and starts nothing.
func TestExclusiveEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	ends := map[string]func(s *session){
		"gateway killed":  func(s *session) { s.gw.kill() },
		"terminated":      func(s *session) { s.signal(syscall.SIGTERM) },
		"anchor killed":   func(s *session) { s.signal(syscall.SIGKILL) },
		"both terminated": func(s *session) { _ = syscall.Kill(firstChild(s.t, s.pid), syscall.SIGTERM) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, dir := startGateway(t), t.TempDir()
			first := g.locked(t, dir, "--exclusive=k")
			first.wantLock("got")
			first.closeStdin()
			first.awaitState(t, "ending")
			second := g.locked(t, dir, "--exclusive=k")
			awaitTrue(t, "a second lease", func() bool {
				locks, _ := filepath.Glob(filepath.Join(second.recordDir(), "*.lock"))
				return len(locks) == 2
			})
			end(second)
			second.waitDead()
			if !first.alive() {
				t.Error("the first was gone already, so nothing was waited for")
			}
			g.kill()
			first.endServer()
			first.waitDead()
			first.nothingLeft()
		})
	}
}
