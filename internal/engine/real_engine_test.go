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
	testkit.Need(t, host != "" && err == nil, "a container engine in MCP_TETHER_TEST_ENGINE, and the docker command")
	at, err := EndpointAt(host, "", false)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{host: host, image: "engine-" + NewRequest()}
	e.Dial = func() (net.Conn, error) { return at.Dial(time.Minute, nil, nil) }
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
	t.Cleanup(func() { _ = e.Remove(context.Background(), Info{Kind: Container, ID: id}) })
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

// End removes containers in every possible state, and does not touch another one.
func TestEngineEndsEveryState(t *testing.T) {
	e := realEngine(t)
	start := func(options ...string) string {
		return e.create(t, append([]string{"run", "-d", "--network", "none"}, options...)...)
	}
	stubborn, polite := start(e.image), start(e.image, "polite")
	paused, politePaused := start(e.image), start(e.image, "polite")
	e.run(t, nil, "pause", paused, politePaused)
	all := []string{
		stubborn, polite, paused, politePaused,
		e.create(t, "create", "--network", "none", e.image),
		start("--restart", "always", e.image, "polite"), start("--restart", "always", e.image, "fails"),
		start("--rm", e.image), start("--rm", e.image, "polite"), start("--stop-signal", "SIGKILL", e.image),
		start("--restart", "always", "--init", e.image),
	}
	ended := start(e.image, "polite")
	e.run(t, nil, "stop", ended)
	stranger := start(e.image)
	all = append(all, ended)
	results, err := recorded(all...).End(soon(t), e.Client, 100*time.Millisecond)
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
		all = append(all, e.create(t, "run", "-d", "--rm", "--network", "none", e.image, "polite"))
	}
	var others sync.WaitGroup
	for _, id := range all {
		others.Go(func() { _ = e.Signal(context.Background(), id, "SIGKILL") })
		others.Go(func() { _ = e.Remove(context.Background(), Info{Kind: Container, ID: id}) })
	}
	_, err := recorded(all...).End(soon(t), e.Client, time.Minute)
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

// A container that was there before, and that the session started, is stopped for good, whatever its restart policy. It
// is not removed.
func TestEngineStopsWhatWasStarted(t *testing.T) {
	e := realEngine(t)
	for _, grace := range []time.Duration{0, 100 * time.Millisecond} {
		id := e.create(t, "create", "--network", "none", "--restart", "always", e.image)
		e.run(t, nil, "start", id)
		x, err := e.Inspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		c := Claim{Session: "s", Complete: true, TrustIDs: true}
		c.Ledger.Add(Note{Op: OpStarted, ID: id, Started: x.StartedAt.Format(time.RFC3339Nano)})
		results, err := c.End(soon(t), e.Client, grace)
		if err != nil || len(results) != 1 || !results[0].Stop || !results[0].Done {
			t.Errorf("%+v, %v", results, err)
		}
		if x, err := e.Inspect(t.Context(), id); err != nil || x.Running {
			t.Errorf("%+v, %v", x, err)
		}
	}
}

// The supervisor may be killed while the engine restarts what the session has started. The engine goes on with the restart,
// and what it starts then does not stay.
func TestEngineStopsWhatIsRestarted(t *testing.T) {
	e := realEngine(t)
	id := e.create(t, "create", "--network", "none", e.image)
	e.run(t, nil, "start", id)
	e.await(t, "logs", "--follow", id)
	x, err := e.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "its start is past", func() bool { return time.Since(x.StartedAt) > 2*listPrecision })
	c := Claim{Session: "s", Complete: true, TrustIDs: true}
	c.Ledger.Add(Note{Op: OpStarted, ID: id, Started: x.StartedAt.Format(time.RFC3339Nano)})
	c.Ledger.Add(Note{Op: OpStart, ID: id, At: time.Now()})
	var restart sync.WaitGroup
	defer restart.Wait()
	restart.Go(func() { e.run(t, nil, "restart", "--time", "60", id) })
	e.await(t, "events", "--since", "1", "--filter", "container="+id, "--filter", "event=kill")
	results, err := c.End(soon(t), e.Client, 0)
	restart.Wait()
	if err != nil || len(results) != 1 || !results[0].Stop || !results[0].Done {
		t.Errorf("%+v, %v", results, err)
	}
	if now, err := e.Inspect(t.Context(), id); err != nil || now.Running || !now.StartedAt.After(x.StartedAt) {
		t.Errorf("%+v, %v", now, err)
	}
}

// await waits for the first byte that the docker command prints.
func (e *engine) await(t *testing.T, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "docker", args...)
	c.Env = append(os.Environ(), "DOCKER_HOST="+e.host)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = out.Read(make([]byte, 1))
	_ = c.Process.Kill()
	_ = c.Wait()
	if err != nil {
		t.Fatalf("docker %q prints nothing: %v", args, err)
	}
}
