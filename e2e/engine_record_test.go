package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
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
	if err := os.MkdirAll(meta, 0o700); err != nil {
		c.t.Fatal(err)
	}
	current := map[string]string{"currentContext": "mine"}
	if host == "" {
		current = map[string]string{}
	}
	about := map[string]any{"Name": "mine", "Endpoints": map[string]any{"docker": map[string]string{"Host": host}}}
	for file, what := range map[string]any{filepath.Join(meta, "meta.json"): about, filepath.Join(c.dir, "config.json"): current} {
		text, err := json.Marshal(what)
		if err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c dockerConfig) env() []string {
	return []string{"DOCKER_CONFIG=" + c.dir, "DOCKER_HOST=", "DOCKER_CONTEXT="}
}

// inContext starts a session of the engine that the current context names, with a container of its own.
func inContext(t *testing.T, f *fakeEngine, flags ...string) (*session, dockerConfig) {
	t.Helper()
	c := newDockerConfig(t, f.host)
	s, host := proxied(t, setup{flags: flags, env: c.env()})
	clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
	if left := f.Left(); len(left) != 1 {
		t.Fatalf("there is %+v, want one container", left)
	}
	return s, c
}

// A session ends its containers where it has made them. Another context may be the current one by then, as after
// `docker context use`.
func TestRecoveryAsksTheEngineOfTheSession(t *testing.T) {
	f, other := newFake(t, nil), newFake(t, nil)
	s, c := inContext(t, f, engineTime)
	c.use(other.host)
	s.ok(syscall.Kill(s.supervisor(), syscall.SIGKILL))
	s.gone()
	if left := f.Left(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if asked := other.Asked(""); len(asked) > 0 {
		t.Errorf("another engine was asked: %v", asked)
	}
}

// An engine that is not in sight any more may come back with its containers, so the record of a session that has some
// there stays.
func TestRecoveryWithoutTheEngine(t *testing.T) {
	f := newFake(t, nil)
	s, c := inContext(t, f)
	f.die()
	c.use("")
	s.ok(syscall.Kill(s.supervisor(), syscall.SIGKILL))
	s.wantLeft()
}

// Only the record says which engine it was. While it cannot be read, it stays with the journal: another engine that is in sight,
// or none, proves nothing.
func TestRecoveryThatCannotReadItsRecord(t *testing.T) {
	for name, inSight := range map[string]bool{"no engine in sight": false, "another in sight": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := inContext(t, newFake(t, nil))
			c.use("")
			if inSight {
				c.use(newFake(t, nil).host)
			}
			base, supervisor := filepath.Join(s.recordDir(), s.id()), s.supervisor()
			s.ok(os.Remove(base + ".json"))
			s.ok(os.Symlink("loop", base+".json"))
			s.ok(syscall.Kill(supervisor, syscall.SIGKILL))
			s.wantLeft()
			if len(readFile(t, base+".containers")) == 0 {
				t.Error("the journal is empty")
			}
			// Without an engine the socket stays for reap as well. It is below /tmp where the path of the test's directory is long.
			socks, _ := filepath.Glob("/tmp/mcp-tether-*/" + s.id() + ".sock")
			for _, sock := range socks {
				s.ok(os.Remove(sock))
			}
		})
	}
}

// dozing is a session of the engine that the current context names. Its server is asleep, and it has a container: the
// engine was gone when the server fell asleep.
func dozing(t *testing.T, f *fakeEngine) (*session, dockerConfig) {
	t.Helper()
	c := newDockerConfig(t, f.host)
	s := startGateway(t).mcpSession(setup{flags: sleepy(engineTime, "--hibernate-anyway"), env: c.env()}, "serve")
	s.greetHeld(1)
	s.ids = s.records()
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
	s.ok(json.Unmarshal([]byte(s.rawRecord(s.behind().ID)), &r))
	clientOf(s.t, "unix://"+r.Socket).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
}

// What a server could not remove when it fell asleep is not forgotten, also where its engine is not in sight any more.
func TestAsleepWithoutTheEngine(t *testing.T) {
	s, c := dozing(t, newFake(t, nil))
	c.use("")
	s.endLeaving()
}
