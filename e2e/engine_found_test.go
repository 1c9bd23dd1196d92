package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// dockerConfig is a configuration of docker with one context.
type dockerConfig struct {
	t   *testing.T
	dir string
}

func newDockerConfig(t *testing.T, host string) dockerConfig {
	t.Helper()
	c := dockerConfig{t, t.TempDir()}
	c.use(host)
	return c
}

// use is `docker context use`, of a context of that address; of none with "".
func (c dockerConfig) use(host string) {
	c.t.Helper()
	meta := filepath.Join(c.dir, "contexts", "meta", "x")
	ok(c.t, os.MkdirAll(meta, 0o700))
	current := map[string]string{"currentContext": "mine"}
	if host == "" {
		current = map[string]string{}
	}
	about := map[string]any{"Name": "mine", "Endpoints": map[string]any{"docker": map[string]string{"Host": host}}}
	for file, what := range map[string]any{filepath.Join(meta, "meta.json"): about, filepath.Join(c.dir, "config.json"): current} {
		text, err := json.Marshal(what)
		ok(c.t, err)
		ok(c.t, os.WriteFile(file, text, 0o600))
	}
}

func (c dockerConfig) env() []string {
	return []string{"DOCKER_CONFIG=" + c.dir, "DOCKER_HOST=", "DOCKER_CONTEXT="}
}

// inContext starts a session of the engine that the current context names, with a container of its own.
func inContext(t *testing.T, f *fakeEngine, flags ...string) (*session, dockerConfig) {
	t.Helper()
	c := newDockerConfig(t, f.host)
	s, host := proxied(t, setup{Flags: flags, Env: c.env()})
	clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
	if left := f.Left(); len(left) != 1 {
		t.Fatalf("there is %+v, want one container", left)
	}
	return s, c
}

// A server has its session's socket for each engine that can be found, and what it makes there ends with the session.
func TestEngineThatIsFound(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(*testing.T, *fakeEngine) []string{
		"socket":  func(_ *testing.T, f *fakeEngine) []string { return []string{"DOCKER_HOST=" + f.host} },
		"context": func(t *testing.T, f *fakeEngine) []string { return newDockerConfig(t, f.host).env() },
		"tcp":     overTCP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			s, host := proxied(t, setup{Env: over(t, f)})
			clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
			if left := f.Left(); len(left) != 1 || left[0].Labels["mcp-tether.session"] != s.ID() {
				t.Errorf("there is %+v, want one container of the session", left)
			}
			for _, name := range []string{"DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONTEXT"} {
				if got := s.environment(name); got != "" {
					t.Errorf("the server has %s=%s", name, got)
				}
			}
			s.end()
			if left := f.Left(); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// The server starts whatever its engine is, its client learns what is wrong, and the log says what is lost.
func TestEngineThatIsNotFound(t *testing.T) {
	t.Parallel()
	const cannot, not = "cannot reach the container engine", "containers will not end with this session"
	for _, c := range []struct {
		name, host, context string
		// What a client reads. Where it reads nothing, the server's DOCKER_HOST is as it was.
		client, log string
	}{
		{"no socket", "unix://" + filepath.Join(t.TempDir(), "none"), "", cannot, cannot},
		{"no such scheme", "gopher://127.0.0.1", "", "", not},
		{"no such context", "", "nonsense", "", not},
		{"by ssh", "ssh://somebody@nowhere", "", "", not},
		{"by name", "tcp://nowhere.invalid:2375", "", "", not},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample(t, 3)
			t.Parallel()
			s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + c.host, "DOCKER_CONTEXT=" + c.context}})
			if c.client == "" && host != c.host {
				t.Errorf("the server has DOCKER_HOST=%s", host)
			}
			if c.client != "" {
				if got := clientOf(t, host).raw(lastMessage("GET", "/_ping", "")); !strings.Contains(got, c.client) {
					t.Errorf("its client is told %q", got)
				}
			}
			s.end()
			if !s.warned(c.log) {
				t.Errorf("nothing in the log about %q", c.log)
			}
		})
	}
}

// A session ends its containers where it has made them. Another context may be the current one by then, as after
// `docker context use`.
func TestRecoveryAsksTheEngineOfTheSession(t *testing.T) {
	t.Parallel()
	f, other := newFake(t, nil), newFake(t, nil)
	s, c := inContext(t, f)
	c.use(other.host)
	s.ok(syscall.Kill(s.Supervisor(), syscall.SIGKILL))
	s.Gone()
	if left := f.Left(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if asked := other.Asked(""); len(asked) > 0 {
		t.Errorf("another engine was asked: %v", asked)
	}
}

// dozing is a session of the engine that the current context names. Its server is asleep, and it has a container: the
// engine was gone when the server fell asleep.
func dozing(t *testing.T, f *fakeEngine) (*session, dockerConfig) {
	t.Helper()
	c := newDockerConfig(t, f.host)
	s := startGateway(t).mcpSession(setup{Flags: sleepy("--hibernate-anyway"), Env: c.env()}, "serve")
	s.greetHeld(1)
	s.IDs = s.Records()
	s.create()
	if left := f.Left(); len(left) != 1 {
		t.Fatalf("there is %+v, want one container", left)
	}
	f.die()
	s.letGo(1)
	s.asleep(1)
	return s, c
}

// create makes a container through the session's socket.
func (s *session) create() {
	s.t.Helper()
	var r struct{ Socket string }
	s.ok(json.Unmarshal([]byte(s.rawRecord(s.Behind().ID)), &r))
	clientOf(s.t, "unix://"+r.Socket).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
}

// What a server could not remove when it fell asleep is not forgotten, also where its engine is not in sight any more.
func TestAsleepWithoutTheEngine(t *testing.T) {
	t.Parallel()
	s, c := dozing(t, newFake(t, nil))
	c.use("")
	s.endLeaving()
}
