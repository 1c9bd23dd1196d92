package engine

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// config makes a docker configuration with some contexts, as the docker command does, and returns its directory.
func config(t *testing.T, current string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"config.json": `{"auths": {}, "currentContext": "` + current + `"}`,
		"contexts/meta/ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb/meta.json": `{"Name":"a"}`,
		"contexts/meta/2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae/meta.json": `{"Name":"foo","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///foo.sock","SkipTLSVerify":false}}}`,
		"contexts/meta/fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9/meta.json": `{"Name":"bar","Endpoints":{"docker":{"Host":"tcp://far:2376"}}}`,
		"contexts/meta/baa5a0964d3320fbc0c6a922140453c8513ea24ab8fd0577034804a967248096/meta.json": `rubbish`,
	} {
		name := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func variables(env ...string) func(string) string {
	return func(name string) string {
		for _, assignment := range env {
			if value, ok := strings.CutPrefix(assignment, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestResolveWhatIsNamed(t *testing.T) {
	plain, foo, bar := "DOCKER_CONFIG="+config(t, ""), "DOCKER_CONFIG="+config(t, "foo"), "DOCKER_CONFIG="+config(t, "bar")
	host := "DOCKER_HOST=unix:///h.sock"
	for name, c := range map[string]struct {
		flag string
		env  []string
		want Endpoint
	}{
		"flag":                    {"tcp://10.0.0.1:1", []string{host, foo}, Endpoint{URL: "tcp://10.0.0.1:1", From: "--engine"}},
		"flag with a path":        {"/a b.sock", nil, Endpoint{URL: "unix:///a b.sock", Socket: "/a b.sock", From: "--engine"}},
		"host before context":     {"", []string{host, "DOCKER_CONTEXT=foo", bar}, Endpoint{URL: "unix:///h.sock", Socket: "/h.sock", From: "DOCKER_HOST"}},
		"host without a scheme":   {"", []string{"DOCKER_HOST=localhost:2375"}, Endpoint{URL: "tcp://localhost:2375", From: "DOCKER_HOST"}},
		"context before config":   {"", []string{"DOCKER_CONTEXT=foo", bar}, Endpoint{URL: "unix:///foo.sock", Socket: "/foo.sock", From: "context foo"}},
		"current context, a unix": {"", []string{foo}, Endpoint{URL: "unix:///foo.sock", Socket: "/foo.sock", From: "context foo"}},
		"empty host":              {"", []string{"DOCKER_HOST=", "CONTAINER_HOST=unix:///c.sock", foo}, Endpoint{URL: "unix:///foo.sock", Socket: "/foo.sock", From: "context foo"}},
		"podman's flag":           {"unix:///run/podman/podman.sock", []string{plain}, Endpoint{URL: "unix:///run/podman/podman.sock", Socket: "/run/podman/podman.sock", From: "--engine"}},
	} {
		c.want.Named = true
		got, ok, err := Resolve(c.flag, variables(c.env...))
		if err != nil || !ok || got != c.want {
			t.Errorf("%s: %+v, %v, %v, want %+v", name, got, ok, err, c.want)
		}
	}
}

func TestResolveMakesPathsAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := Resolve("", variables("DOCKER_HOST=unix://d.sock"))
	if want := filepath.Join(dir, "d.sock"); err != nil || got.Socket != want {
		t.Errorf("%+v, %v, want %s", got, err, want)
	}
}

func TestResolveErrors(t *testing.T) {
	dir := config(t, "")
	for _, env := range []string{
		"DOCKER_HOST=http://x:1", "DOCKER_HOST=npipe:////./pipe/docker_engine", "DOCKER_HOST=fd://", "DOCKER_HOST=tcp://", "DOCKER_HOST=unix://",
		"DOCKER_HOST=/var/run/docker.sock", "DOCKER_HOST=://", "DOCKER_CONTEXT=a", "DOCKER_CONTEXT=baz", "DOCKER_CONTEXT=no such", "DOCKER_CONTEXT=../../x",
	} {
		got, ok, err := Resolve("", variables(env, "DOCKER_CONFIG="+dir))
		if !errors.Is(err, errEndpoint) || ok || got != (Endpoint{}) {
			t.Errorf("%s: %+v, %v, %v", env, got, ok, err)
		}
	}
	for _, env := range [][]string{
		{"DOCKER_HOST= ssh://me@far "}, {"DOCKER_HOST=tcp://far:1"}, {"DOCKER_CONTEXT=bar"}, {"DOCKER_HOST=tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY=1"},
		{"DOCKER_HOST=tcp://127.0.0.1:1", "DOCKER_CERT_PATH=/c"},
	} {
		if got, ok, err := Resolve("", variables(append(env, "DOCKER_CONFIG="+dir)...)); !errors.Is(err, ErrElsewhere) || ok || got != (Endpoint{}) {
			t.Errorf("%s: %+v, %v, %v", env, got, ok, err)
		}
	}
	if _, _, err := Resolve("", variables("DOCKER_CONTEXT=nowhere", "DOCKER_CONFIG="+dir)); !errors.Is(err, errNoContext) {
		t.Errorf("a context that is not there: %v", err)
	}
}

// A test can move only one of the default sockets: that of the user's podman.
func TestResolveDefaultSockets(t *testing.T) {
	if usable(dockerSocket) || usable(podmanSocket) {
		t.Log("an engine listens here: the rest is in its shadow")
		return
	}
	dir := t.TempDir()
	env := []string{"DOCKER_CONFIG=" + dir, "XDG_RUNTIME_DIR=" + dir, "DOCKER_CONTEXT=default"}
	if got, ok, err := Resolve("", variables(env...)); ok || err != nil {
		t.Errorf("nothing there: %+v, %v", got, err)
	}
	socket := filepath.Join(dir, podmanInUser)
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := Resolve("", variables(env...)); ok || err != nil {
		t.Errorf("a file, but no socket: %+v, %v", got, err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := Endpoint{URL: "unix://" + socket, Socket: socket, From: "default socket"}
	if got, ok, err := Resolve("", variables(env...)); !ok || err != nil || got != want {
		t.Errorf("%+v, %v, %v, want %+v", got, ok, err, want)
	}
	env = append(env, "CONTAINER_HOST=tcp://10.0.0.1:1")
	want = Endpoint{URL: "tcp://10.0.0.1:1", Named: true, From: "CONTAINER_HOST"}
	if got, ok, err := Resolve("", variables(env...)); !ok || err != nil || got != want {
		t.Errorf("%+v, %v, %v, want %+v", got, ok, err, want)
	}
}

// A configuration that cannot be read names nothing, and is no error, as with the docker command.
func TestResolvePassesOverBrokenConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"currentContext": 7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if name := currentContext(variables("HOME="+filepath.Dir(dir), "DOCKER_CONFIG="+dir)); name != "" {
		t.Errorf("context %q", name)
	}
}

func TestVariables(t *testing.T) {
	docker := Endpoint{URL: "unix:///d.sock", Socket: "/d.sock"}
	for name, c := range map[string]struct {
		e         Endpoint
		env, want []string
	}{
		"nothing set": {docker, []string{"A=1"}, []string{"A=1", "DOCKER_HOST=unix:///p"}},
		"all of docker's": {
			docker,
			[]string{"DOCKER_HOST=x", "DOCKER_TLS=1", "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH=/c", "DOCKER_CONTEXT=foo", "DOCKER_HOSTS=stay", "DOCKER_API_VERSION=1.41", "DOCKER_HOST=y"},
			[]string{"DOCKER_HOSTS=stay", "DOCKER_API_VERSION=1.41", "DOCKER_HOST=unix:///p"},
		},
		"another engine of podman's": {
			docker, []string{"CONTAINER_HOST=unix:///c.sock", "CONTAINER_SSHKEY=/k"},
			[]string{"CONTAINER_HOST=unix:///c.sock", "CONTAINER_SSHKEY=/k", "DOCKER_HOST=unix:///p"},
		},
		"the same engine": {
			docker, []string{"CONTAINER_HOST=unix:///d.sock", "CONTAINER_SSHKEY=/k", "CONTAINER_CONNECTION=c", "CONTAINERS=1"},
			[]string{"CONTAINERS=1", "DOCKER_HOST=unix:///p", "CONTAINER_HOST=unix:///p"},
		},
		"rubbish of podman's": {docker, []string{"CONTAINER_HOST=unixx://"}, []string{"CONTAINER_HOST=unixx://", "DOCKER_HOST=unix:///p"}},
	} {
		drop, add := c.e.Variables(c.env, "/p")
		got := slices.DeleteFunc(slices.Clone(c.env), func(assignment string) bool {
			return slices.ContainsFunc(drop, func(prefix string) bool { return strings.HasPrefix(assignment, prefix) })
		})
		if got = append(got, add...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestNameOfTheMachine(t *testing.T) {
	id := MachineID()
	raw, err := os.ReadFile("/etc/machine-id")
	if id != MachineID() || err != nil && id != "" || id != "" && (len(id) != 16 || strings.Contains(string(raw), id)) {
		t.Errorf("machine %q", id)
	}
}
