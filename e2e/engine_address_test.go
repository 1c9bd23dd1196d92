package e2e

import (
	"os"
	"strings"
	"testing"
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
