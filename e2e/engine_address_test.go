package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

// A server knows its engine's address for as long as it lives, and what it has kept for longer.

func (f *fakeEngine) answers(t *testing.T, host string) bool {
	t.Helper()
	return strings.HasPrefix(clientOf(t, host).raw(lastMessage("GET", "/_ping", "")), "HTTP/1.1 200 ")
}

// The last logout takes the runtime directory away. The server still reaches its engine, and what it makes ends with it.
func TestEngineAfterTheLogout(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + f.host}})
	s.ok(os.RemoveAll(s.Runtime))
	if !f.answers(t, host) {
		t.Error("the engine does not answer")
	}
	clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
	if left := f.Left(); len(left) != 1 || left[0].Labels["mcp-tether.session"] == "" {
		t.Errorf("there is %+v, want one container of the session", left)
	}
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	s.WaitDead()
	if left := f.Left(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A process that is kept finds the engine where it was, and what it makes then is nobody's.
func TestEngineOfAKeptProcess(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	s := startGateway(t).newSession()
	about := filepath.Join(s.Dir, "about")
	server := `MCP_TETHER_KEEP=1 sleep 1000 </dev/null >/dev/null 2>&1 & echo "$! $DOCKER_HOST" >"$1.new"; mv "$1.new" "$1"; exec cat`
	s.Spawn(setup{Flags: polite(), Env: []string{"DOCKER_HOST=" + f.host}}, "/bin/sh", "-c", server, "sh", about)
	testkit.Until(t, "a kept process", func() bool { _, err := os.Stat(about); return err == nil })
	text, host, _ := strings.Cut(strings.TrimSpace(string(readFile(t, about))), " ")
	kept, err := strconv.Atoi(text)
	s.ok(err)
	defer func() { _ = syscall.Kill(kept, syscall.SIGKILL) }()
	if host == f.host {
		t.Fatal("there is no proxy")
	}
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	if !f.answers(t, host) {
		t.Error("the engine does not answer")
	}
	clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
	if left := f.Left(); len(left) != 1 || left[0].Labels["mcp-tether.session"] != "" {
		t.Errorf("there is %+v, want one container of nobody's", left)
	}
}
