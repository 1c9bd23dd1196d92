package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
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
	at, err := EndpointAt(host, "", false)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{host: host, image: "engine-" + NewRequest()}
	e.Dial = func() (net.Conn, error) { return at.Dial(time.Minute, nil) }
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
	t.Cleanup(func() { _ = e.Remove(context.Background(), &Info{Kind: Container, ID: id}) })
	return id
}

// gone checks that the engine knows none of the given containers.
func (e *engine) gone(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if x, err := e.Inspect(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s is there: %+v, %v", id, x, err)
		}
	}
}

func onLabels(session, request string, at time.Time) []string {
	return []string{
		"--label", LabelSession + "=" + session, "--label", LabelRequest + "=" + request,
		"--label", LabelCreated + "=" + at.Format(time.RFC3339Nano),
	}
}

// created is the claim of a session's own process on containers that one request label is on.
func created(ids ...string) Claim {
	c := Claim{Session: "s", Complete: true, TrustIDs: true}
	for _, id := range ids {
		c.Ledger.Add(createdNote(Container, "r", id))
	}
	return c
}

// End removes containers in every possible state, and does not touch another one.
func TestEngineEndsEveryState(t *testing.T) {
	e := realEngine(t)
	start := func(options ...string) string {
		return e.create(t, append([]string{"run", "-d", "--network", "none", "--label", LabelRequest + "=r"}, options...)...)
	}
	stubborn, polite := start(e.image), start(e.image, "polite")
	paused, politePaused := start(e.image), start(e.image, "polite")
	e.run(t, nil, "pause", paused, politePaused)
	all := []string{
		stubborn, polite, paused, politePaused,
		e.create(t, "create", "--network", "none", "--label", LabelRequest+"=r", e.image),
		start("--restart", "always", e.image, "polite"), start("--restart", "always", e.image, "fails"),
		start("--rm", e.image), start("--rm", e.image, "polite"), start("--stop-signal", "SIGKILL", e.image),
		start("--restart", "always", "--init", e.image),
	}
	ended := start(e.image, "polite")
	e.run(t, nil, "stop", ended)
	stranger := start(e.image)
	all = append(all, ended)
	results, err := created(all...).End(soon(t), e.Client, 100*time.Millisecond)
	if err != nil || len(results) != len(all) {
		t.Errorf("%+v, %v", results, err)
	}
	e.gone(t, all...)
	if x, err := e.Inspect(t.Context(), stranger); err != nil || !x.Running {
		t.Errorf("a stranger: %+v, %v", x, err)
	}
}

// If others remove the same containers at the same time, all are gone in the end, without an error.
func TestEngineOthersRemoveAtTheSameTime(t *testing.T) {
	e := realEngine(t)
	var all []string
	for range 4 {
		all = append(all, e.create(t, "run", "-d", "--rm", "--network", "none", "--label", LabelRequest+"=r", e.image, "polite"))
	}
	var others sync.WaitGroup
	for _, id := range all {
		others.Go(func() { _ = e.Signal(context.Background(), id, "SIGKILL") })
		others.Go(func() { _ = e.Remove(context.Background(), &Info{Kind: Container, ID: id}) })
	}
	_, err := created(all...).End(soon(t), e.Client, time.Minute)
	others.Wait()
	if err != nil {
		t.Error(err)
	}
	e.gone(t, all...)
}

// docker commit copies our labels. A container that is later made from that image stays.
func TestEngineSparesCopies(t *testing.T) {
	e := realEngine(t)
	at := time.Now()
	args := append([]string{"create", "--network", "none"}, onLabels("s", "r1", at)...)
	original := e.create(t, append(args, e.image)...)
	e.run(t, nil, "commit", original, e.image+"-copy")
	t.Cleanup(func() { e.run(t, nil, "rmi", "--force", e.image+"-copy") })
	copied := e.create(t, "run", "-d", "--network", "none", e.image+"-copy")

	noted := Note{Op: OpCreate, Kind: Container, Request: "r1", At: at}
	for name, c := range map[string]Claim{
		"by its label":   {Session: "s", TrustIDs: true},
		"by its request": {Session: "s", Complete: true, TrustIDs: true, Ledger: ledger(noted)},
	} {
		mine, doubtful, err := c.Look(soon(t), e.Client)
		if err != nil || idsOf(mine) != original || idsOf(doubtful) != copied {
			t.Errorf("%s: mine %s, doubtful %s, %v", name, idsOf(mine), idsOf(doubtful), err)
		}
	}
	if _, err := (Claim{Session: "s"}).End(soon(t), e.Client, 0); err != nil {
		t.Error(err)
	}
	e.gone(t, original)
	if x, err := e.Inspect(t.Context(), copied); err != nil || !x.Running {
		t.Errorf("the copy: %+v, %v", x, err)
	}
}
