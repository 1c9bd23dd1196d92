package e2e

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// A real engine, started once for all tests that want one, or the one in MCP_TETHER_TEST_ENGINE (podman:
// MCP_TETHER_TEST_PODMAN). Tests tell their containers from others' by a label of their own, so that a container
// without our label is found all the same.

const (
	testEngine = "MCP_TETHER_TEST_ENGINE"
	testPodman = "MCP_TETHER_TEST_PODMAN"
	// testKind is the kind of scripts/engine that testEngine is of; docker if it is not said.
	testKind  = "MCP_TETHER_TEST_ENGINE_KIND"
	markLabel = "e2e"
)

// engines are the ones that this process has started.
var engines struct {
	sync.Mutex
	docker, podman *engine
}

// engine is where containers run.
type engine struct {
	host, sock string // unix://PATH, PATH
	kind       string // docker, podman
	dir        string // of scripts/engine; "" if it is not ours to stop
	client     *http.Client
	// hung is set when the engine did not answer in time. It is not asked again: each test would wait as long for nothing.
	hung atomic.Bool

	imageOnce sync.Once
	imageName string
}

// engineFor returns Docker's engine.
func engineFor(t *testing.T) *engine {
	t.Helper()
	needDockerClient(t)
	return oneEngine(t, &engines.docker, "docker", cmp.Or(os.Getenv(testKind), "docker"), os.Getenv(testEngine))
}

// podmanFor returns podman's, which knows its own API and Docker's.
func podmanFor(t *testing.T) *engine {
	t.Helper()
	needDockerClient(t)
	return oneEngine(t, &engines.podman, "podman", "podman", os.Getenv(testPodman))
}

// needDockerClient is for what no machine without an engine can show.
func needDockerClient(t *testing.T) {
	t.Helper()
	testkit.Long(t)
	testkit.Lacks(t, testkit.Docker, !has("docker"), "the docker client")
}

func has(command string) bool {
	_, err := exec.LookPath(command)
	return err == nil
}

// oneEngine returns the engine that is given, or starts one of a kind that scripts/engine knows.
func oneEngine(t *testing.T, at **engine, family, kind, given string) *engine {
	t.Helper()
	engines.Lock()
	defer engines.Unlock()
	if *at != nil {
		if (*at).hung.Load() {
			t.Fatal(errHung)
		}
		return *at
	}
	if given != "" {
		*at = newEngine(family, given, "")
		return *at
	}
	daemon := map[string]string{"docker": "dockerd", "podman": "podman"}[family]
	testkit.Lacks(t, testkit.Docker, !(os.Geteuid() == 0 && has(daemon)), "root and "+daemon)
	// t.TempDir is too long for a socket, and ends with the test.
	dir, err := os.MkdirTemp("", "mcp-tether-engine-") //nolint:usetesting // see above
	ok(t, err)
	script, err := filepath.Abs("../scripts/engine")
	ok(t, err)
	out, err := exec.Command(script, "start", dir, kind, strconv.Itoa(os.Getpid())).CombinedOutput()
	host, found := strings.CutPrefix(strings.TrimSpace(string(out)), "DOCKER_HOST=")
	if err != nil || !found {
		t.Fatalf("start an engine: %v\n%s", err, out)
	}
	*at = newEngine(family, host, dir)
	return *at
}

func newEngine(kind, host, dir string) *engine {
	sock := strings.TrimPrefix(host, "unix://")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}
	return &engine{host: host, sock: sock, kind: kind, dir: dir, client: &http.Client{
		Transport: &http.Transport{DialContext: dial, MaxIdleConns: 4}, Timeout: testkit.Patience,
	}}
}

// stopEngines ends what oneEngine has started, at the end of the process.
func stopEngines() {
	engines.Lock()
	defer engines.Unlock()
	for _, e := range []*engine{engines.docker, engines.podman} {
		if e == nil || e.dir == "" {
			continue
		}
		e.client.CloseIdleConnections()
		if out, err := exec.Command("../scripts/engine", "stop", e.dir).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "stop the engine in %s: %v\n%s", e.dir, err, out)
		}
	}
}

// image is the name of an image with nothing but the fixture, which is its entrypoint. It stays in the engine.
func (e *engine) image(t *testing.T) string {
	t.Helper()
	e.imageOnce.Do(func() { e.imageName = e.importFixture(t) })
	if e.imageName == "" {
		t.Fatal("no image: an earlier test could not import it")
	}
	return e.imageName
}

func (e *engine) importFixture(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile(fixture)
	ok(t, err)
	sum := sha256.Sum256(program)
	name := "mcp-tether-e2e:" + hex.EncodeToString(sum[:6])
	if e.do(t, http.MethodGet, "/images/"+name+"/json", nil, nil) == http.StatusOK {
		return name
	}
	e.importProgram(t, name, `["/fixture"]`)
	return name
}

// importProgram makes an image with nothing but the fixture, and this entrypoint.
func (e *engine) importProgram(t *testing.T, name, entrypoint string) {
	t.Helper()
	program, err := os.ReadFile(fixture)
	ok(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	head := &tar.Header{Name: "fixture", Mode: 0o755, Size: int64(len(program))}
	errs := []error{w.WriteHeader(head), write(w, program), w.Close()}
	ok(t, errors.Join(errs...))
	cmd := e.command("import", "-c", "ENTRYPOINT "+entrypoint, "-", name)
	cmd.Stdin = &layer
	if o := finish(t, cmd); o.code != 0 {
		t.Fatalf("import the image: %s", o.stderr)
	}
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// command is the docker client, straight to the engine.
func (e *engine) command(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), e.environ()...)
	return cmd
}

// environ is what a client needs to know. Nothing of the user's own configuration is in it.
func (e *engine) environ() []string {
	if e.kind == "podman" { // whose client fails without the directory
		return []string{"DOCKER_HOST=" + e.host, "CONTAINER_HOST=" + e.host}
	}
	return []string{"DOCKER_HOST=" + e.host, "DOCKER_CONFIG=/nonexistent", "DOCKER_CLI_HINTS=false"}
}

// docker runs the docker client and waits for it.
func (e *engine) docker(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, e.command(args...))
}

// do makes one request of the API, without a client of the engine's in between. It returns the status; the body of a
// successful answer is decoded into reply, unless that is nil.
func (e *engine) do(t *testing.T, method, path string, body, reply any) int {
	t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		ok(t, err)
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://engine"+path, in)
	ok(t, err)
	req.Header.Set("Content-Type", "application/json")
	code, all, err := e.ask(req)
	ok(t, err)
	if reply != nil && code < 300 {
		if err := json.Unmarshal(all, reply); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, all)
		}
	}
	return code
}

var errHung = errors.New("the engine has not answered before, and is not asked again")

// ask makes a request and reads all of the answer.
func (e *engine) ask(req *http.Request) (code int, body []byte, err error) {
	if e.hung.Load() {
		return 0, nil, errHung
	}
	resp, err := e.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		code = resp.StatusCode
		body, err = io.ReadAll(resp.Body)
	}
	if os.IsTimeout(err) {
		e.hung.Store(true)
	}
	return code, body, err
}

// box is a container as the engine lists it.
type box struct {
	ID     string `json:"Id"`
	Names  []string
	Image  string
	State  string
	Status string
	// Command is what it runs, in one line.
	Command string
	Labels  map[string]string
}

func (b box) String() string {
	return fmt.Sprintf("%.12s %s %s (%s)", b.ID, strings.Join(b.Names, " "), b.State, b.Status)
}

// marked lists the containers with the test's label, in whatever state. An empty mark lists all there are.
func (e *engine) marked(t *testing.T, mark string) []box {
	t.Helper()
	filters := ""
	if mark != "" {
		filters = "&filters=" + url.QueryEscape(`{"label":["`+markLabel+"="+mark+`"]}`)
	}
	var out []box
	if code := e.do(t, http.MethodGet, "/v1.40/containers/json?all=1"+filters, nil, &out); code != http.StatusOK {
		t.Fatalf("list containers: %d", code)
	}
	return out
}

// running is what State says of a container.
type running struct {
	Status    string
	Running   bool
	Pid       int
	ExitCode  int
	StartedAt string
}

func (e *engine) state(t *testing.T, id string) (running, bool) {
	t.Helper()
	var out struct{ State running }
	code := e.do(t, http.MethodGet, "/v1.40/containers/"+id+"/json", nil, &out)
	return out.State, code == http.StatusOK
}

// images lists the ids of all images.
func (e *engine) images(t *testing.T) []string {
	t.Helper()
	var list []struct {
		ID string `json:"Id"`
	}
	e.do(t, http.MethodGet, "/v1.40/images/json?all=1", nil, &list)
	var out []string
	for _, i := range list {
		out = append(out, i.ID)
	}
	slices.Sort(out)
	return out
}

// mark returns a new value for the test's label. What still has it when the test ends is removed.
func (e *engine) mark(t *testing.T) string {
	t.Helper()
	mark := "m" + strings.ToLower(rand.Text()[:15])
	t.Cleanup(func() {
		left := e.marked(t, mark)
		if t.Failed() && len(left) > 0 {
			t.Logf("containers at the end: %v", left)
		}
		e.remove(t, left...)
	})
	return mark
}

// remove ends and removes containers, as a test does that is done with them.
func (e *engine) remove(t *testing.T, all ...box) {
	t.Helper()
	var wg sync.WaitGroup
	for _, b := range all {
		wg.Go(func() {
			// When podman is to remove a container, it asks its process first, and waits for ten seconds.
			e.do(t, http.MethodPost, "/v1.40/containers/"+b.ID+"/kill", nil, nil)
			e.do(t, http.MethodDelete, "/v1.40/containers/"+b.ID+"?force=1&v=1", nil, nil)
		})
	}
	wg.Wait()
}

// awaitRunning returns when as many containers with the label run as wanted. It hears of each change from the engine.
func (e *engine) awaitRunning(t *testing.T, mark string, want int) []box {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	news := e.events(ctx, t, mark)
	for {
		all := e.marked(t, mark)
		up := slices.DeleteFunc(slices.Clone(all), func(b box) bool { return b.State != "running" })
		if len(up) >= want {
			return up
		}
		if !news.Scan() {
			t.Fatalf("%d of %d containers run: %v", len(up), want, all)
		}
	}
}

// events subscribes to what happens to the containers with the label. It ends with the context.
func (e *engine) events(ctx context.Context, t *testing.T, mark string) *bufio.Scanner {
	t.Helper()
	filters := url.QueryEscape(`{"type":["container"],"label":["` + markLabel + "=" + mark + `"]}`)
	// Events of the last second are told again: an engine answers before it listens.
	since := strconv.FormatInt(time.Now().Unix()-1, 10)
	path := "/v1.40/events?since=" + since + "&filters=" + filters
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	ok(t, err)
	resp, err := e.client.Do(req)
	ok(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return bufio.NewScanner(resp.Body)
}

// networks lists those with the test's label.
func (e *engine) networks(t *testing.T, mark string) []string {
	t.Helper()
	var list []struct {
		ID   string `json:"Id"`
		Name string
	}
	filters := url.QueryEscape(`{"label":["` + markLabel + "=" + mark + `"]}`)
	if code := e.do(t, http.MethodGet, "/v1.40/networks?filters="+filters, nil, &list); code != http.StatusOK {
		t.Fatalf("list networks: %d", code)
	}
	var out []string
	for _, n := range list {
		out = append(out, n.ID)
	}
	return out
}

// removeNetworks removes the test's containers and then its networks.
func (e *engine) removeNetworks(t *testing.T, mark string) {
	t.Helper()
	e.remove(t, e.marked(t, mark)...)
	for _, id := range e.networks(t, mark) {
		e.do(t, http.MethodDelete, "/v1.40/networks/"+id, nil, nil)
	}
}
