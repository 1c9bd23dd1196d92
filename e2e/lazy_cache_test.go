package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/internal/testkit"
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

// What is kept is shown and removed, and tells nothing of the environment.
func TestLazyCacheCommand(t *testing.T) {
	t.Parallel()
	first := learn(t, "")
	run := func(args ...string) outcome {
		cmd := (caller{runtime: first.Runtime}).command(append([]string{"cache"}, args...)...)
		cmd.Env = append(cmd.Environ(), "XDG_CACHE_HOME="+first.cacheHome())
		return finish(t, cmd)
	}
	if o := run(); o.code != 0 || !strings.Contains(o.stdout, fixture+" mcp") {
		t.Errorf("%+v", o)
	}
	var shown struct {
		Version int
		Entries []struct {
			Command []string
			Pages   map[string]int
		}
	}
	if o := run("--json"); json.Unmarshal([]byte(o.stdout), &shown) != nil || len(shown.Entries) != 1 || shown.Entries[0].Pages["tools"] != 1 {
		t.Errorf("%+v", o)
	}
	for _, file := range first.entries() {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), first.Runtime) {
			t.Errorf("the environment is in it: %s, %v", text, err)
		}
	}
	if o := run("some"); o.code != 2 {
		t.Errorf("%+v", o)
	}
	if o := run("--clear", "*nothing like it*"); o.code != 0 || len(first.entries()) != 1 {
		t.Errorf("%+v", o)
	}
	if o := run("--clear", "*fixture mcp*"); o.code != 0 || len(first.entries()) != 0 {
		t.Errorf("%+v", o)
	}
	s := first.twin()
	s.meet()
	s.leave()
	first.wantStarts(2)
	if o := run("--clear"); o.code != 0 || len(first.entries()) != 0 || !strings.Contains(o.stderr, "removed 1 server") {
		t.Errorf("%+v", o)
	}
	if o := run(); o.code != 0 || o.stdout != "" {
		t.Errorf("%+v", o)
	}
}
