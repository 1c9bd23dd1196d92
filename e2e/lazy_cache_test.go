package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/internal/testkit"
)

// The cache is believed where the user alone could have written it. Without one the server is started as ever.

func (s *session) cacheDir() string { return filepath.Join(s.cacheHome(), "mcp-tether") }

// forge replaces each entry by one that names another tool.
func (s *session) forge() {
	s.t.Helper()
	for _, file := range s.entries() {
		text, err := os.ReadFile(file)
		s.ok(err)
		s.ok(os.WriteFile(file, []byte(strings.Replace(string(text), `"echo"`, `"evil"`, 1)), 0o600))
	}
}

func (s *session) eachEntry(do func(file string) error) {
	s.t.Helper()
	for _, file := range s.entries() {
		s.ok(do(file))
	}
}

func TestLazyForgedCache(t *testing.T) {
	testkit.Need(t, os.Getuid() == 0, "root")
	t.Parallel()
	for name, c := range map[string]struct {
		spoil    func(s *session)
		believed bool
	}{
		"the control": {func(s *session) { s.forge() }, true},
		"file of another user": {func(s *session) {
			s.forge()
			s.eachEntry(func(file string) error { return os.Chown(file, nobody, nobody) })
		}, false},
		"directory of another user": {func(s *session) { s.forge(); s.ok(os.Chown(s.cacheDir(), nobody, nobody)) }, false},
		"parent of another user":    {func(s *session) { s.forge(); s.ok(os.Chown(s.cacheHome(), nobody, nobody)) }, false},
		"open to others":            {func(s *session) { s.forge(); s.ok(os.Chmod(s.cacheDir(), 0o777)) }, false},
		"a link": {func(s *session) {
			s.forge()
			s.ok(errors.Join(os.Rename(s.cacheDir(), s.dir+"/forged"), os.Symlink(s.dir+"/forged", s.cacheDir())))
		}, false},
		"an entry that is a link": {func(s *session) {
			s.forge()
			s.eachEntry(func(file string) error {
				return errors.Join(os.Rename(file, s.dir+"/forged"), os.Symlink(s.dir+"/forged", file))
			})
		}, false},
		"half a file": {func(s *session) {
			s.forge()
			s.eachEntry(func(file string) error { return os.Truncate(file, 100) })
		}, false},
		"an empty file": {func(s *session) { s.eachEntry(func(file string) error { return os.Truncate(file, 0) }) }, false},
		"a huge file":   {func(s *session) { s.eachEntry(func(file string) error { return os.Truncate(file, 1<<40) }) }, false},
		"two lines": {func(s *session) {
			s.forge()
			s.eachEntry(func(file string) error {
				text, err := os.ReadFile(file)
				return errors.Join(err, os.WriteFile(file, []byte(strings.Replace(string(text), `,"lists"`, ",\n"+`"lists"`, 1)), 0o600))
			})
		}, false},
		"a directory": {func(s *session) {
			s.eachEntry(func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) })
		}, false},
		"another secret": {func(s *session) {
			s.forge()
			s.ok(os.WriteFile(filepath.Join(s.cacheDir(), "share.key"), make([]byte, 16), 0o600))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := learn(t, "")
			c.spoil(first)
			s := first.twin()
			list := s.meet()
			if strings.Contains(list, "evil") != c.believed || (s.starts() == 1) != c.believed {
				t.Errorf("%d servers were started, and the list is %s", s.starts(), list)
			}
			if !c.believed {
				s.echo(7)
			}
			s.leave()
		})
	}
}

// Where nothing can be kept, each session starts its server, and is served as ever.
func TestLazyWithoutCache(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"readonly", "full", "noinodes", ""} {
		t.Run("cache "+step, func(t *testing.T) {
			needWorld(t)
			t.Parallel()
			s := startGateway(t).newSession()
			s.ok(os.Mkdir(s.cacheHome(), 0o700))
			argv := s.wrap(polite("--lazy"), fixture, "mcp", s.dir, "-", "0", "serve")
			env := []string{"XDG_CACHE_HOME=" + s.cacheHome()}
			if step == "" {
				env = []string{"XDG_CACHE_HOME=", "HOME="}
			} else {
				argv = inWorld(argv, step+"="+s.cacheHome())
			}
			s.spawn(setup{bare: true, env: env}, argv...)
			s.meet()
			s.echo(7)
			s.leave()
			s.wantStarts(1)
			if len(s.entries()) > 0 {
				t.Errorf("kept: %s", s.entries())
			}
			warned := false
			for _, message := range []string{"what the server publishes is not kept", "without a cache the server is started: --lazy has no effect"} {
				warned = warned || len(s.events(message)) > 0
			}
			if !warned {
				t.Error("the user is not told")
			}
		})
	}
}

// Sessions that fill the cache at once leave a whole entry.
func TestLazyFillAtOnce(t *testing.T) {
	t.Parallel()
	first := lazySession(t, "")
	all := []*session{first}
	for range 5 {
		all = append(all, first.twin())
	}
	for _, s := range all {
		s.write(initialize(version) + "\n" + initialized + "\n" + fmt.Sprintf(listTools, 1) + "\n")
	}
	for _, s := range all {
		s.wantAnswer(s.read(), 0)
		s.wantAnswer(s.read(), 1)
		s.closeStdin()
		wantExit(t, s.wait(), "exit 0")
	}
	first.gone()
	before := first.starts() // The last may have found what the first has left.
	s := first.twin()
	s.meet()
	s.leave()
	first.wantStarts(before)
	if files, err := os.ReadDir(first.cacheDir()); err != nil || len(files) != 2 {
		t.Errorf("left beside entry and secret: %v, %v", files, err)
	}
}

// What is kept is shown and removed, and tells nothing of the environment.
func TestLazyCacheCommand(t *testing.T) {
	t.Parallel()
	first := learn(t, "")
	run := func(args ...string) outcome {
		cmd := (caller{runtime: first.runtime}).command(append([]string{"cache"}, args...)...)
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
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), first.runtime) {
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
