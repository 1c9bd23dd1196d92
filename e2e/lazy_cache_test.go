package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// The cache is believed where the user alone could have written it. Without one the server is started as ever.

// forge replaces each entry by one that names another tool.
func (s *session) forge() {
	s.t.Helper()
	for _, file := range s.entries() {
		text, err := os.ReadFile(file)
		s.ok(err)
		s.ok(os.WriteFile(file, []byte(strings.Replace(string(text), `"echo"`, `"evil"`, 1)), 0o600))
	}
}

func TestLazyForgedCache(t *testing.T) {
	testkit.Need(t, testkit.Root)
	t.Parallel()
	for name, c := range map[string]struct {
		spoil    func(file string) error
		believed bool
	}{
		"the control":    {func(string) error { return nil }, true},
		"another user's": {func(file string) error { return os.Chown(file, nobody, nobody) }, false},
		"half a file":    {func(file string) error { return os.Truncate(file, 100) }, false},
		"another secret": {func(file string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(file), "share.key"), make([]byte, 16), 0o600)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another secret" || name == "half a file" {
				testkit.Long(t)
			}
			t.Parallel()
			first := learn(t, "")
			first.forge()
			for _, file := range first.entries() {
				noError(t, c.spoil(file))
			}
			s := first.twin()
			list := s.meet()
			if strings.Contains(list, "evil") != c.believed || (s.starts() == 1) != c.believed {
				t.Errorf("%d servers were started, and the list is %s", s.starts(), list)
			}
			s.leave()
		})
	}
}

// Where nothing can be kept, each session starts its server, and is served as ever.
func TestLazyWithoutCache(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.Spawn(setup{Flags: polite("--lazy"), Env: []string{"XDG_CACHE_HOME=", "HOME="}}, fixture, "mcp", s.Dir, "-", "0", "serve")
	s.meet()
	s.echo(7)
	s.leave()
	s.wantStarts(1)
	if len(s.Events("without a cache the server is started: --lazy has no effect")) != 1 {
		t.Error("the user is not told")
	}
}

// What is kept tells nothing of the environment. Without it the next session starts its server, and keeps it anew.
func TestLazyCacheDirectory(t *testing.T) {
	t.Parallel()
	first := learn(t, "")
	for _, file := range first.entries() {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), first.Runtime) || !strings.Contains(string(text), fixture) {
			t.Errorf("%s, %v", text, err)
		}
		ok(t, os.Remove(file))
	}
	s := first.twin()
	s.meet()
	s.leave()
	first.wantStarts(2)
	if len(first.entries()) != 1 {
		t.Errorf("kept: %v", first.entries())
	}
}
