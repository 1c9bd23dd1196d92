package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
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
	e, err := b.startEngine()
	if err != nil {
		return t, err
	}
	defer e.stop()
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
	news, err := e.events(mark)
	if err != nil {
		return 0, 0, err
	}
	defer news.Close()
	defer e.removeAll("label=bench=" + mark)
	run := []string{"docker", "run", "-i", "--rm", "--network", "none", "--label", "bench=" + mark, boxImage, "boxed"}
	if stubborn {
		run = append(run, "ignore-eof", "ignore-term")
	}
	server := s.command(append([]string{"/bin/sh", "-c", clientsScript, "sh", strconv.Itoa(size)}, run...)...)
	v, err := b.startVictim(1, append(e.env(), server...))
	if err != nil {
		return 0, 0, err
	}
	defer v.close()
	return b.killBoxed(v, news, size, s.wrap == nil)
}

// killBoxed waits for the containers, kills the gateway, and waits until they are gone. Without a wrapper they get only a
// moment to go.
func (b *bench) killBoxed(v *victim, news *eventStream, size int, alone bool) (time.Duration, int, error) {
	err := news.await("start", size, time.Now().Add(boxWait))
	if err != nil {
		return 0, 0, err
	}
	if v.procs, err = b.below(v.pid); err != nil {
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
	b.bury(v)
	return took, size - news.seen["destroy"], nil
}

// testEngine is a docker engine of our own, or the one of the tests.
type testEngine struct {
	host   string
	own    bool
	config string // a directory without a configuration of docker's
}

// startEngine uses the engine in MCP_TETHER_TEST_ENGINE, or starts one by scripts/engine. It makes an image of the tests'
// fixture, which plays a server of any temper.
func (b *bench) startEngine() (*testEngine, error) {
	e := &testEngine{host: os.Getenv("MCP_TETHER_TEST_ENGINE"), config: b.dir}
	if e.own = e.host == ""; e.own {
		out, err := startApart(exec.Command("scripts/engine", "start", engineDir(b.dir)))
		if err != nil {
			return nil, fmt.Errorf("start an engine (from the top directory, as root, with docker.io installed): %w\n%s", err, out)
		}
		_, e.host, _ = strings.Cut(strings.TrimSpace(string(out)), "=")
	}
	_, err := e.docker("CGO_ENABLED=0 go build -o " + b.dir + "/fixture ./e2e/fixture && " +
		"tar -C " + b.dir + ` -c fixture | docker import -c 'ENTRYPOINT ["/fixture"]' - ` + boxImage)
	if err != nil {
		e.stop()
	}
	return e, err
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
	if e.own {
		stopEngine(engineDir(e.config))
	} else {
		_, _ = e.docker("docker rmi -f " + boxImage)
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

// env is the beginning of the command line of a client of the engine.
func (e *testEngine) env() []string {
	return []string{"/usr/bin/env", "DOCKER_HOST=" + e.host, "DOCKER_CONFIG=" + e.config}
}

// docker runs a script of docker's commands, and returns what it prints.
func (e *testEngine) docker(script string) (string, error) {
	words := append(e.env(), "/bin/sh", "-c", script)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %q: %w", script, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// removeAll removes what a round has left.
func (e *testEngine) removeAll(filter string) {
	if _, err := e.docker("docker ps -aq --filter " + filter + " | xargs -r docker rm -fv"); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// eventStream is what the engine tells of the containers of one round.
type eventStream struct {
	net.Conn
	lines *bufio.Scanner
	seen  map[string]int
}

func (e *testEngine) events(mark string) (*eventStream, error) {
	c, err := net.Dial("unix", strings.TrimPrefix(e.host, "unix://"))
	if err != nil {
		return nil, fmt.Errorf("reach the engine: %w", err)
	}
	// The stream begins a second ago: the engine answers before it listens. HTTP/1.0 has no chunks, so lines stay whole.
	filter := url.QueryEscape(`{"type":["container"],"label":["bench=` + mark + `"]}`)
	if _, err := fmt.Fprintf(c, "GET /events?since=%d&filters=%s HTTP/1.0\r\n\r\n", time.Now().Unix()-1, filter); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("ask the engine for events: %w", err)
	}
	return &eventStream{c, bufio.NewScanner(c), map[string]int{}}, nil
}

// await returns when the engine has told of an action as many times as count says.
func (s *eventStream) await(action string, count int, until time.Time) error {
	_ = s.SetReadDeadline(until)
	for s.seen[action] < count {
		if !s.lines.Scan() {
			return fmt.Errorf("wait for %q of %d containers: %v (%w)", action, count, s.seen, s.lines.Err())
		}
		_, rest, _ := strings.Cut(s.lines.Text(), `"Action":"`)
		event, _, _ := strings.Cut(rest, `"`)
		s.seen[event]++
	}
	return nil
}
