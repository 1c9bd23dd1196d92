package e2e

import (
	"os"
	"strings"
	"testing"
)

// The cache is believed where the user alone could have written it. Without one the server is started as ever.

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

// What is kept tells nothing of the environment. Of half of it the next session believes nothing: it starts its server, and keeps it anew.
func TestLazyCacheDirectory(t *testing.T) {
	t.Parallel()
	first := learn(t, "")
	for _, file := range first.entries() {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), first.Runtime) || !strings.Contains(string(text), fixture) {
			t.Errorf("%s, %v", text, err)
		}
		ok(t, os.Truncate(file, 100))
	}
	s := first.twin()
	s.meet()
	s.leave()
	first.wantStarts(2)
	if len(first.entries()) != 1 {
		t.Errorf("kept: %v", first.entries())
	}
}
