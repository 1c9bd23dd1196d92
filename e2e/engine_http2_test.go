package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mcp-tether/internal/testkit"
)

// HTTP/2 with prior knowledge: docker 29 takes it. Of an engine that does not, clients see through us what they see
// directly.

// http2Client is a client of net/http that speaks nothing else.
func http2Client(t *testing.T, host string) *http.Client {
	t.Helper()
	path := strings.TrimPrefix(host, "unix://")
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testkit.Patience}
}

// said is what an engine says to one request.
type said struct {
	status int
	body   string
	err    error
}

func askHTTP2(t *testing.T, client *http.Client, method, target, body string, headers ...string) said {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://engine"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		return said{err: err}
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return said{response.StatusCode, string(b), err}
}

// speaksHTTP2 tells whether an engine does. One that does not refuses it through the proxy in the same words; what net/http makes
// of them differs from one time to the next.
func speaksHTTP2(t *testing.T, direct, host string) bool {
	t.Helper()
	want := askHTTP2(t, http2Client(t, direct), "GET", "/_ping", "")
	got := askHTTP2(t, http2Client(t, host), "GET", "/_ping", "")
	if want.status != got.status || want.body != got.body || (want.err == nil) != (got.err == nil) {
		t.Errorf("directly: %d %q, %v; through us: %d %q, %v", want.status, want.body, want.err, got.status, got.body, got.err)
	}
	if want.err == nil {
		return true
	}
	if want, got := refusal(t, direct), refusal(t, host); want != got || !strings.HasPrefix(want, "HTTP/1.1 ") {
		t.Errorf("directly: %q; through us: %q", want, got)
	}
	return false
}

// needHTTP2 ends the session and leaves the test out where the engine does not speak HTTP/2. docker 29 does.
func (e *engine) needHTTP2(t *testing.T, s *session, host string) {
	t.Helper()
	if speaksHTTP2(t, e.host, host) {
		return
	}
	s.end()
	if os.Getenv(testKind) == "docker29" {
		t.Fatal("docker 29 does not answer in HTTP/2")
	}
	testkit.Excuse(t, true, "this engine does not speak HTTP/2")
}

// refusal is the first line of what an engine says to the beginning of HTTP/2.
func refusal(t *testing.T, host string) string {
	t.Helper()
	c := dialEngine(t, host)
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// made is the id of what a create has answered with.
func (a said) made(t *testing.T) string {
	t.Helper()
	var object struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &object); err != nil || object.ID == "" || a.status != http.StatusCreated {
		t.Fatalf("create: %v", a)
	}
	return object.ID
}

// Requests that are no gRPC are answered as by the engine, and what they create ends with the session.
func TestEngineHTTP2(t *testing.T) {
	e := engineFor(t)
	mark := e.mark(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	e.needHTTP2(t, s, host)
	direct, through := http2Client(t, e.host), http2Client(t, host)
	for _, target := range []string{"GET /version", "HEAD /_ping", "GET /v1.41/containers/none/json", "POST /v1.41/containers/none/start", "DELETE /v1.41/images/none", "GET /nowhere"} {
		method, target, _ := strings.Cut(target, " ")
		if want, got := askHTTP2(t, direct, method, target, ""), askHTTP2(t, through, method, target, ""); want != got || got.err != nil {
			t.Errorf("%s %s: %v instead of %v", method, target, got, want)
		}
	}
	create := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed","ignore-eof"],"HostConfig":{"NetworkMode":"none"}}`, e.image(t), markLabel, mark)
	// The control: what is created past us stays.
	bystander := askHTTP2(t, direct, "POST", "/v1.41/containers/create", create).made(t)
	e.watchHTTP2(t, through, askHTTP2(t, through, "POST", "/v1.41/containers/create", create).made(t), mark)
	// In HTTP/2 this would be gRPC for the engine. It is a create for us, and the engine's API refuses what comes of that.
	if got := askHTTP2(t, through, "POST", "/v1.41/containers/create", create, "Content-Type: application/grpc"); got.status != http.StatusBadRequest {
		t.Errorf("create of another kind: %v", got)
	}
	if got := askHTTP2(t, through, "POST", "/v1.41/containers/"+bystander+"/attach", ""); got.status != http.StatusNotImplemented {
		t.Errorf("attach: %v", got)
	}
	for _, b := range e.marked(t, mark) {
		if ours := b.Labels["mcp-tether.session"] == s.id(); ours != (b.ID != bystander) {
			t.Errorf("%v has labels %v", b, b.Labels)
		}
	}
	s.end()
	if left := e.marked(t, mark); len(left) != 1 || left[0].ID != bystander {
		t.Errorf("left: %v", left)
	}
}

// watchHTTP2 starts a container while fifty streams of the same connection wait for it, and one hears of events.
func (e *engine) watchHTTP2(t *testing.T, client *http.Client, id, mark string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine/v1.41/events?filters=%7B%22label%22%3A%5B%22"+markLabel+"%3D"+mark+"%22%5D%7D", nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	var all sync.WaitGroup
	for i := range 50 {
		target, method := "/v1.41/containers/"+id+"/wait?condition=next-exit", "POST"
		if i%2 == 0 {
			target, method = "/v1.41/containers/"+id+"/json", "GET"
		}
		all.Go(func() {
			if got := askHTTP2(t, client, method, target, ""); got.status != http.StatusOK {
				t.Errorf("%s: %v", target, got)
			}
		})
	}
	if got := askHTTP2(t, client, "POST", "/v1.41/containers/"+id+"/start", ""); got.status != http.StatusNoContent {
		t.Errorf("start: %v", got)
	}
	lines := bufio.NewScanner(events.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"Action":"start"`) {
		continue
	}
	// Some may begin to wait only now, and hear of the next end.
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for {
		if got := askHTTP2(t, client, "POST", "/v1.41/containers/"+id+"/restart?t=0", ""); got.status != http.StatusNoContent {
			t.Errorf("restart: %v", got)
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// The supervisor is killed while clients create in HTTP/2.
func TestEngineHTTP2Kill(t *testing.T) {
	e := engineFor(t)
	mark := e.mark(t)
	s, host := proxied(t, setup{flags: patient(), env: []string{"DOCKER_HOST=" + e.host}})
	e.needHTTP2(t, s, host)
	body := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}}`, e.image(t), markLabel, mark)
	through := http2Client(t, host)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for askHTTP2(t, through, "POST", "/v1.41/containers/create", body).err == nil {
				continue // until the supervisor is gone
			}
		})
	}
	e.awaitCreated(t, mark)
	s.killer("supervisor")()
	all.Wait()
	s.gone()
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A real client of BuildKit builds, and is sent what came of it, as it is directly.
func TestEngineHTTP2BuildKit(t *testing.T) {
	e := engineFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	e.needHTTP2(t, s, host)
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

// podman speaks HTTP/1.1 only, and says so itself.
func TestPodmanRefusesHTTP2(t *testing.T) {
	e := podmanFor(t)
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	if speaksHTTP2(t, e.host, host) {
		t.Log("it speaks HTTP/2 now")
	}
	s.end()
}
