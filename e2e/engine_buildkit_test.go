package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mcp-tether/internal/testkit"
)

// A real client of BuildKit builds, and is sent what came of it, as it is directly. Its gRPC is a stream in both directions, and
// on another one the engine is the client.
func TestEngineBuildKit(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	program := filepath.Join(t.TempDir(), "client")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	build.Dir = "buildkit"
	if out, err := build.CombinedOutput(); err != nil {
		t.Logf("%v: %s", err, out)
		testkit.Need(t, false, "BuildKit's client (go build in e2e/buildkit)")
	}
	var want string
	for _, h := range []string{e.host, host} {
		var all sync.WaitGroup
		out := make([]outcome, 2)
		for i := range out {
			all.Go(func() { out[i] = finish(t, exec.Command(program, h, t.TempDir())) })
		}
		all.Wait()
		for _, o := range out {
			if want == "" {
				want = o.stdout
			}
			if o.code != 0 || o.stdout != want || !strings.Contains(o.stdout, `"large":3145728`) {
				t.Errorf("%s: %v instead of %s", h, o, want)
			}
		}
	}
	s.end()
}

// HTTP/2 without an upgrade, which docker 29 takes on its socket, is refused: nothing in it could be labelled.
func TestEngineRefusesHTTP2(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	c := dialEngine(t, host)
	if _, err := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Error(err)
	}
	if head := newLines(c).head(); !strings.HasPrefix(head, "HTTP/1.1 505 ") {
		t.Errorf("%q", head)
	}
	s.end()
}
