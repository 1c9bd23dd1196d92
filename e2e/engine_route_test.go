package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// route is one way to the engine. What a client sees on one must be what it sees on any other.
type route struct {
	t     *testing.T
	name  string // "route1" and so on: part of names, and not part of any word that is compared
	host  string // as DOCKER_HOST has it
	image string // that has the fixture
	scene string // makes names unique
}

// tarOf is an archive of one file.
func tarOf(t *testing.T, name string, mode int64, content []byte) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: time.Unix(1e9, 0)})
	if _, werr := w.Write(content); err != nil || werr != nil || w.Close() != nil {
		t.Fatal(err, werr)
	}
	return &b
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	ok(t, err)
	return b
}

// cleanEnv is ours without what directs or decorates a docker client.
func cleanEnv(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DOCKER_") && !strings.HasPrefix(e, "CONTAINER_") {
			env = append(env, e)
		}
	}
	return append(env, "DOCKER_CONFIG="+filepath.Join(t.TempDir(), "none"))
}

// named is the name of an object of this route; in what is compared it reads as NAME.
func (r route) named(object string) string {
	return fmt.Sprintf("mt%d-%s-%s-%s", os.Getpid(), r.scene, object, r.name)
}

// container is a name that is free again after the test.
func (r route) container(object string) string {
	name := r.named(object)
	r.t.Cleanup(func() { r.cleanUp("rm", "-f", "-v", name) })
	return name
}

func (r route) cleanUp(args ...string) {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+engineFor(r.t).host)
	_ = cmd.Run()
}

func (r route) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(r.t.Context(), testkit.Patience)
	r.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(cleanEnv(r.t), "DOCKER_HOST="+r.host, "DOCKER_BUILDKIT=0")
	return cmd
}

// docker runs the client to its end, and returns what can be compared of it.
func (r route) docker(args ...string) string {
	r.t.Helper()
	return r.fed(nil, args...)
}

// fed is docker with something on stdin.
func (r route) fed(stdin io.Reader, args ...string) string {
	r.t.Helper()
	cmd := r.command(args...)
	cmd.Stdin = stdin
	return r.finish(cmd)
}

// finish runs a command of the client's. One that does not end is a difference like any other.
func (r route) finish(cmd *exec.Cmd) string {
	r.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "failed: " + err.Error()
	}
	return r.plain(fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s\n", cmd.ProcessState.ExitCode(), out.String(), errs.String()))
}

// run is the beginning of a `docker run` of a tool.
func (r route) run(flags []string, tool ...string) []string {
	return r.on("run", flags, tool...)
}

func (r route) on(verb string, flags []string, tool ...string) []string {
	args := append([]string{verb, "--network=none"}, flags...)
	return append(append(args, r.image, "tool"), tool...)
}

// plain takes out what no two runs have in common.
func (r route) plain(text string) string {
	text = strings.ReplaceAll(text, "-"+r.name, "-ROUTE")
	for _, rule := range plainRules {
		text = rule.find.ReplaceAllString(text, rule.put)
	}
	return text
}

var plainRules = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`(?m)^Date: .*$`), "Date: TIME"},
	{regexp.MustCompile(`checksum of ref [0-9a-z]+::[0-9a-z]+`), "checksum of ref REF"},
	// The docker command says this or not when a container does not start. It cancels its wait for the container's end,
	// and tells of that if it gets to it before it exits.
	{regexp.MustCompile(`(?m)^time="TIME" level=error msg="error waiting for container: context canceled"\n`), ""},
}

// dial connects to what DOCKER_HOST says.
func (r route) dial() *net.UnixConn {
	r.t.Helper()
	return dialEngine(r.t, r.host)
}

func dialEngine(t *testing.T, host string) *net.UnixConn {
	t.Helper()
	path, found := strings.CutPrefix(host, "unix://")
	if !found {
		t.Fatalf("DOCKER_HOST is %q", host)
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	ok(t, err)
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw sends the bytes, and returns all that comes back until the engine closes.
func (r route) raw(text string) string {
	r.t.Helper()
	c := r.dial()
	go func() { _, _ = io.WriteString(c, text) }()
	all, err := io.ReadAll(c)
	if err != nil {
		return r.plain(string(all)) + " failed: " + err.Error()
	}
	return r.plain(string(all))
}

// lastMessage is the text of a request, the last one on its connection.
func lastMessage(method, path, body string, headers ...string) string {
	head := method + " " + path + " HTTP/1.1\r\nHost: docker\r\n"
	if body != "" {
		headers = append(headers, "Content-Length: "+strconv.Itoa(len(body)))
	}
	for _, h := range append(headers, "Connection: close") {
		head += h + "\r\n"
	}
	return head + "\r\n" + body
}

// environment asks the server for a variable.
func (s *session) environment(name string) string {
	s.t.Helper()
	value, err := strconv.Unquote(answerTo(s, name))
	s.ok(err)
	return value
}

// proxied starts a session whose server does nothing, and returns the DOCKER_HOST that the server has.
func proxied(t *testing.T, with setup) (*session, string) {
	t.Helper()
	with.Flags = polite(with.Flags...)
	with.Env = append([]string{"DOCKER_CONFIG=" + filepath.Join(t.TempDir(), "none")}, with.Env...)
	s := begin(t, with, "serve")
	s.WaitRecord()
	return s, s.environment("DOCKER_HOST")
}

// relayTo listens in place of the engine.
func relayTo(t *testing.T, e *engine, relay func(client, engine *net.UnixConn)) string {
	t.Helper()
	l, host := listenUnix(t)
	go func() {
		for {
			client, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				engine, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: e.sock, Net: "unix"})
				if err != nil {
					return
				}
				defer engine.Close()
				relay(client, engine)
			}()
		}
	}()
	return host
}

// listenUnix listens at an address that is short enough, whatever the test's name.
func listenUnix(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcp-tether-e2e-") //nolint:usetesting // its directories have the test's name in them
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	ok(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, "unix://" + path
}
