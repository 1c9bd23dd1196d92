package main

import (
	"archive/tar"
	"bytes"
	"context"
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
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clientsScript starts $1 docker clients with the words after it, all with this shell's own stdin, and stays.
const clientsScript = `n=$1; shift; exec 3<&0
while [ "$n" -gt 0 ]; do "$@" <&3 >/dev/null & n=$((n-1)); done; wait`

// boxWait is how long containers may take to appear, or to go.
const boxWait = 20 * time.Second

// measureContainers kills the gateway of a session with containers and waits for the last of them to be gone.
func measureContainers(b *bench) (table, error) {
	t := table{
		Section: "containers",
		Title:   "Gateway SIGKILLed: until the engine has none of N containers any more, in whatever state",
		Columns: []string{"rounds", "median ms", "p95 ms", "left"},
	}
	e, err := startEngine(b.dir)
	if err != nil {
		return t, err
	}
	defer e.stop()
	if err := e.makeImage(b.dir); err != nil {
		return t, err
	}
	for _, temper := range []string{"obliging", "stubborn"} {
		for _, size := range []int{1, 4} {
			name := fmt.Sprintf("%d %s", size, temper)
			for _, s := range []subject{bare(), b.subjects[0]} {
				if err := b.boxRounds(&t, e, s, name, size, temper == "stubborn"); err != nil {
					return t, fmt.Errorf("%s, %s: %w", s.name, name, err)
				}
			}
		}
	}
	return t, nil
}

// boxRounds adds a row. Three rounds show well enough what bare leaves.
func (b *bench) boxRounds(t *table, e *testEngine, s subject, name string, size int, stubborn bool) error {
	n := max(b.rounds/10, 1)
	if s.wrap == nil {
		n = min(n, 3)
	}
	var took, left []float64
	for range n {
		d, stayed, err := b.boxOnce(e, s, size, stubborn)
		if err != nil {
			return err
		}
		left = append(left, float64(stayed))
		if stayed == 0 {
			took = append(took, ms(d))
		}
	}
	t.add(s.name, name, float64(len(left)), median(took), quantile(took, 0.95), quantile(left, 1))
	return nil
}

// boxOnce is one round: how long it took, and how many containers stayed.
func (b *bench) boxOnce(e *testEngine, s subject, size int, stubborn bool) (time.Duration, int, error) {
	mark := strconv.FormatInt(time.Now().UnixNano(), 36)
	ctx, cancel := context.WithTimeout(context.Background(), 2*boxWait)
	defer cancel()
	news, err := e.events(ctx, mark)
	if err != nil {
		return 0, 0, err
	}
	defer news.Close()
	defer e.removeAll(mark)
	run := []string{"docker", "run", "-i", "--rm", "--network", "none", "--label", "bench=" + mark, boxImage, "boxed"}
	if stubborn {
		run = append(run, "ignore-eof", "ignore-term")
	}
	server := s.command(append([]string{"/bin/sh", "-c", clientsScript, "sh", strconv.Itoa(size)}, run...)...)
	lifeline, err := newPair(pipes)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll(lifeline[0])
	g, err := b.startGateway(lifeline[1], append([]string{"/usr/bin/env", "DOCKER_HOST=" + e.host, "DOCKER_CONFIG=" + b.dir}, server...))
	closeAll(lifeline[1])
	if err != nil {
		return 0, 0, err
	}
	v := &victim{live: g, tree: -1, inherited: -1}
	defer v.close()
	return v.kill(news, size, s.wrap == nil)
}

// kill waits for the containers, kills the gateway, and waits until they are gone. Without a wrapper they get only a
// moment to go.
func (v *victim) kill(news *eventStream, size int, alone bool) (time.Duration, int, error) {
	err := news.await("start", size, time.Now().Add(boxWait))
	if err != nil {
		return 0, 0, err
	}
	if v.procs, err = below(v.pid); err != nil {
		return 0, 0, err
	}
	time.Sleep(50 * time.Millisecond) // a gateway is seldom killed while its server starts
	wait := boxWait
	if alone {
		wait = 10 * leakWait
	}
	from := time.Now()
	if err := unix.Kill(v.pid, unix.SIGKILL); err != nil {
		return 0, 0, fmt.Errorf("kill the gateway: %w", err)
	}
	_ = news.await("destroy", size, from.Add(wait))
	took := time.Since(from)
	_ = v.wait()
	v.bury()
	return took, size - news.seen["destroy"], nil
}

// testEngine is a docker engine of our own, or the one of the tests.
type testEngine struct {
	host   string
	dir    string // "" if it is not ours
	client *http.Client
}

// startEngine uses the engine in MCP_TETHER_TEST_ENGINE, or starts one by scripts/engine.
func startEngine(dir string) (*testEngine, error) {
	e := &testEngine{host: os.Getenv("MCP_TETHER_TEST_ENGINE")}
	if e.host == "" {
		e.dir = engineDir(dir)
		out, err := startApart(exec.Command("scripts/engine", "start", e.dir))
		if err != nil {
			return nil, fmt.Errorf("start an engine (from the top directory, as root, with docker.io installed): %w\n%s", err, out)
		}
		_, e.host, _ = strings.Cut(strings.TrimSpace(string(out)), "=")
	}
	sock := strings.TrimPrefix(e.host, "unix://")
	e.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}}}
	return e, nil
}

// startApart runs a command, such as the engine, whose orphans do not fall to us. Waiting for all our children is then
// waiting for what a round has left.
func startApart(cmd *exec.Cmd) ([]byte, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("stop being a subreaper: %w", err)
	}
	out, err := cmd.CombinedOutput()
	return out, errors.Join(err, becomeSubreaper())
}

func (e *testEngine) stop() {
	if e.dir == "" {
		_ = e.do(http.MethodDelete, "/images/"+boxImage+"?force=1", nil, nil)
	}
	e.client.CloseIdleConnections()
	if e.dir != "" {
		stopEngine(e.dir)
	}
}

func engineDir(dir string) string { return filepath.Join(dir, "engine") }

// stopEngine ends the engine in that directory, if there is one.
func stopEngine(dir string) {
	if _, err := os.Stat(dir); err != nil {
		return
	}
	if out, err := exec.Command("scripts/engine", "stop", dir).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: stop the engine: %v\n%s", err, out)
	}
}

const boxImage = "mcp-tether-bench:latest"

// makeImage makes an image of the tests' fixture, which plays a server of any temper.
func (e *testEngine) makeImage(dir string) error {
	program := filepath.Join(dir, "fixture")
	build := exec.Command("go", "build", "-o", program, "./e2e/fixture")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the server for the image: %w\n%s", err, out)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the server for the image: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = w.WriteHeader(&tar.Header{Name: "fixture", Mode: 0o755, Size: int64(len(b))})
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("pack the image: %w", err)
	}
	name, tag, _ := strings.Cut(boxImage, ":")
	change := url.QueryEscape(`ENTRYPOINT ["/fixture"]`)
	return e.do(http.MethodPost, "/images/create?fromSrc=-&repo="+name+"&tag="+tag+"&changes="+change, &layer, nil)
}

// do makes one request. The body of a successful answer is decoded into reply, unless reply is nil.
func (e *testEngine) do(method, path string, body io.Reader, reply any) error {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://engine/v1.40"+path, body)
	if err != nil {
		return fmt.Errorf("ask the engine for %s: %w", path, err)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the engine for %s: %w", path, err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the engine's answer to %s: %w", path, err)
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("ask the engine for %s: %s: %s", path, resp.Status, all)
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(all, reply)
}

func filterOf(mark string) string {
	return url.QueryEscape(`{"type":["container"],"label":["bench=` + mark + `"]}`)
}

// removeAll removes what a round has left.
func (e *testEngine) removeAll(mark string) {
	var list []struct{ ID string }
	filters := url.QueryEscape(`{"label":["bench=` + mark + `"]}`)
	if err := e.do(http.MethodGet, "/containers/json?all=1&filters="+filters, nil, &list); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	for _, c := range list {
		_ = e.do(http.MethodDelete, "/containers/"+c.ID+"?force=1&v=1", nil, nil)
	}
}

// eventStream is what the engine tells of the containers of one round.
type eventStream struct {
	io.Closer
	told chan string
	seen map[string]int
}

func (e *testEngine) events(ctx context.Context, mark string) (*eventStream, error) {
	// The stream begins a second ago: the engine answers before it listens.
	path := fmt.Sprintf("http://engine/v1.40/events?since=%d&filters=%s", time.Now().Unix()-1, filterOf(mark))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the engine for events: %w", err)
	}
	resp, err := e.client.Do(req) //nolint:bodyclose // the stream is closed by the caller
	if err != nil {
		return nil, fmt.Errorf("ask the engine for events: %w", err)
	}
	s := &eventStream{Closer: resp.Body, told: make(chan string, 256), seen: map[string]int{}}
	go func() {
		defer close(s.told)
		for dec := json.NewDecoder(resp.Body); ; {
			var event struct{ Action string }
			if dec.Decode(&event) != nil {
				return
			}
			s.told <- event.Action
		}
	}()
	return s, nil
}

// await returns when the engine has told of an action as many times as count says.
func (s *eventStream) await(action string, count int, until time.Time) error {
	limit := time.After(time.Until(until))
	for s.seen[action] < count {
		select {
		case a, ok := <-s.told:
			if !ok {
				return errors.New("wait for containers: the engine ended its events")
			}
			s.seen[a]++
		case <-limit:
			return fmt.Errorf("wait for %q of %d containers: %v", action, count, s.seen)
		}
	}
	return nil
}
