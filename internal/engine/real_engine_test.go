package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// engine is a real container engine, named by MCP_TETHER_TEST_ENGINE.
type engine struct {
	Client
	host, image string
}

// body is what runs in the containers. As the first process of a container, it does not die of a signal that it does
// not handle. With an argument it ends on SIGTERM.
const body = `package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	term := make(chan os.Signal, 1)
	if len(os.Args) > 1 && os.Args[1] == "polite" {
		signal.Notify(term, syscall.SIGTERM)
	} else {
		signal.Ignore(syscall.SIGTERM)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1) // or the runtime finds that nothing can happen any more
	os.Stdout.WriteString("ready\n")
	if len(os.Args) > 1 && os.Args[1] == "fails" {
		os.Exit(1)
	}
	<-term
}
`

func realEngine(t *testing.T) *engine {
	t.Helper()
	host := os.Getenv("MCP_TETHER_TEST_ENGINE")
	_, err := exec.LookPath("docker")
	testkit.Long(t)
	testkit.Lacks(t, testkit.Docker, !(host != "" && err == nil), "a container engine in MCP_TETHER_TEST_ENGINE, and the docker command")
	at, err := EndpointAt(host)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{host: host, image: "engine-" + strings.ToLower(rand.Text())}
	e.Dial = at.Dial
	e.build(t)
	return e
}

// build makes an image with nothing but the program in it.
func (e *engine) build(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "body.go"), filepath.Join(dir, "body")
	if err := os.WriteFile(source, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command("go", "build", "-o", program, source)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "body", Mode: 0o755, Size: int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(b)
	_ = w.Close()
	e.run(t, archive.Bytes(), "import", "--change", `ENTRYPOINT ["/body"]`, "-", e.image)
	t.Cleanup(func() { e.run(t, nil, "rmi", "--force", e.image) })
}

// run runs the docker command and returns what it prints.
func (e *engine) run(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	c := exec.Command("docker", args...)
	c.Env = append(os.Environ(), "DOCKER_HOST="+e.host)
	c.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("docker %q: %v: %s", args, err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// create makes a container, started or not, and removes it when the test ends.
func (e *engine) create(t *testing.T, args ...string) string {
	t.Helper()
	id := e.run(t, nil, args...)
	t.Cleanup(func() { _ = e.RemoveContainer(context.Background(), id) })
	return id
}

// runs reports whether a container is there and runs.
func (e *engine) runs(t *testing.T, id string) (there, runs bool) {
	t.Helper()
	var x struct{ State struct{ Running bool } }
	err := e.decode(t.Context(), "/containers/"+id+"/json", &x)
	if err != nil && !errors.Is(err, errNotFound) {
		t.Fatal(err)
	}
	return err == nil, x.State.Running
}

// gone checks that the engine knows none of the given containers.
func (e *engine) gone(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if there, _ := e.runs(t, id); there {
			t.Errorf("%s is there", id)
		}
	}
}

// labels are options that label a container as made by session s.
func labels(at time.Time) []string {
	return []string{"--network", "none", "--label", LabelSession + "=s", "--label", LabelCreated + "=" + at.UTC().Format(time.RFC3339Nano)}
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// Remove removes containers in every possible state, and does not touch another one.
func TestEngineRemovesEveryState(t *testing.T) {
	e := realEngine(t)
	start := func(options ...string) string {
		return e.create(t, append(append([]string{"run", "-d"}, labels(time.Now())...), options...)...)
	}
	stubborn, polite := start(e.image), start(e.image, "polite")
	paused, politePaused := start(e.image), start(e.image, "polite")
	e.run(t, nil, "pause", paused, politePaused)
	all := []string{
		stubborn, polite, paused, politePaused,
		e.create(t, append(append([]string{"create"}, labels(time.Now())...), e.image)...),
		start("--restart", "always", e.image, "polite"), start("--restart", "always", e.image, "fails"),
		start("--rm", e.image), start("--rm", e.image, "polite"), start("--stop-signal", "SIGKILL", e.image),
		start("--restart", "always", "--init", e.image),
	}
	ended := start(e.image, "polite")
	e.run(t, nil, "stop", ended)
	stranger := e.create(t, "run", "-d", "--network", "none", e.image)
	all = append(all, ended)
	results, err := Remove(soon(t), e.Client, Owner{Session: "s", Made: map[string]bool{}}, 100*time.Millisecond)
	if err != nil || len(results) != len(all) {
		t.Errorf("%+v, %v", results, err)
	}
	e.gone(t, all...)
	if _, runs := e.runs(t, stranger); !runs {
		t.Error("a stranger was ended")
	}
}

// If others remove the same containers at the same time, all are gone in the end, without an error.
func TestEngineOthersRemoveAtTheSameTime(t *testing.T) {
	e := realEngine(t)
	var all []string
	for range 4 {
		all = append(all, e.create(t, append(append([]string{"run", "-d", "--rm"}, labels(time.Now())...), e.image, "polite")...))
	}
	var others sync.WaitGroup
	for _, id := range all {
		others.Go(func() { _ = e.Kill(context.Background(), id) })
		others.Go(func() { _ = e.RemoveContainer(context.Background(), id) })
	}
	_, err := Remove(soon(t), e.Client, Owner{Session: "s", Made: map[string]bool{}}, time.Minute)
	others.Wait()
	if err != nil {
		t.Error(err)
	}
	e.gone(t, all...)
}

// docker commit copies our labels. A container that is made from that image later stays.
func TestEngineSparesCopies(t *testing.T) {
	e := realEngine(t)
	original := e.create(t, append(append([]string{"create"}, labels(time.Now().Add(-time.Minute))...), e.image)...)
	e.run(t, nil, "commit", original, e.image+"-copy")
	t.Cleanup(func() { e.run(t, nil, "rmi", "--force", e.image+"-copy") })
	copied := e.create(t, "run", "-d", "--network", "none", e.image+"-copy")
	if _, err := Remove(soon(t), e.Client, Owner{Session: "s", Made: map[string]bool{original: true}}, 0); err != nil {
		t.Error(err)
	}
	e.gone(t, original)
	if _, runs := e.runs(t, copied); !runs {
		t.Error("the copy was ended")
	}
}
