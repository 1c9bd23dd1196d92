package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Real software: servers from npm behind the official TypeScript client, and Chromium behind one of them. Chromium is
// the worst case in the wild. Its server starts it in a terminal session of its own, and its crash handlers detach
// themselves to two more. Most of its processes overwrite their environment, and its server does not care about EOF.

const (
	// For a Chromium that starts for the first time, on a machine that is busy.
	startPatience = 2 * time.Minute
	// What is still there so long after its client's end is there to stay.
	leakPatience = 3 * time.Second
)

// A realServer is what a user would put into a gateway's configuration, and one call to see that it works.
type realServer struct {
	toldServer
	tool      string
	arguments map[string]string
}

func everything(launcher ...string) func(*testing.T, string) realServer {
	return func(_ *testing.T, dir string) realServer {
		return realServer{toldServer{Command: launcher[0], Args: launcher[1:], Env: realEnv(dir)}, "echo", map[string]string{"message": "hello"}}
	}
}

func puppeteer(t *testing.T, dir string) realServer {
	t.Helper()
	testkit.Long(t)
	browser := os.Getenv("PUPPETEER_EXECUTABLE_PATH")
	if browser == "" {
		browser = "/usr/bin/chromium"
	}
	_, err := os.Stat(browser)
	testkit.Lacks(t, testkit.Chromium, err != nil, "Chromium (PUPPETEER_EXECUTABLE_PATH)")

	options, err := json.Marshal(map[string]any{"headless": true, "args": []string{
		"--no-sandbox", // It refuses to run as root otherwise.
		"--user-data-dir=" + filepath.Join(dir, "profile"),
		// The page is a data: URL, and nothing else is to be asked of any network.
		"--host-resolver-rules=MAP * ~NOTFOUND", "--no-proxy-server", "--disable-quic",
		"--disable-background-networking", "--disable-component-update", "--disable-domain-reliability",
		"--disable-sync", "--no-first-run", "--no-pings",
	}})
	ok(t, err)
	env := realEnv(dir)
	env["PUPPETEER_EXECUTABLE_PATH"] = browser
	env["PUPPETEER_LAUNCH_OPTIONS"] = string(options)
	env["ALLOW_DANGEROUS"] = "true"
	return realServer{
		toldServer{Command: "npx", Args: []string{"--no-install", "mcp-server-puppeteer"}, Env: env}, "puppeteer_navigate",
		map[string]string{"url": "data:text/html,<title>hello</title>"},
	}
}

// realEnv keeps all that the server and its tools write below dir, whose name doubles as the mark of the family.
func realEnv(dir string) map[string]string {
	return map[string]string{
		"E2E_FAMILY":                 dir,
		"HOME":                       dir,
		"TMPDIR":                     dir,
		"XDG_RUNTIME_DIR":            dir,
		"npm_config_update_notifier": "false",
	}
}

// A realCase is a server and what it does when it is on its own.
type realCase struct {
	name       string
	server     func(*testing.T, string) realServer
	leaksAlone bool
}

var realServers = []realCase{
	{"everything", everything("node", "node_modules/.bin/mcp-server-everything"), false},
	{"everything-npx", everything("npx", "--no-install", "mcp-server-everything"), false},
	{"puppeteer-npx", puppeteer, true},
}

type realEnding struct {
	name   string
	end    func(*sdkClient)
	causes []string
}

var realEndings = []realEnding{
	// The client closes standard input, and sends SIGTERM to a server that has not ended 2 s later.
	{"close", (*sdkClient).close, []string{"stdin-closed", "server-exited", "signal"}},
	{"kill", func(c *sdkClient) { c.signal(syscall.SIGKILL) }, deathCauses},
	{"term", func(c *sdkClient) { c.signal(syscall.SIGTERM) }, deathCauses},
}

func TestRealServersLeaveNothing(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	for i, s := range realServers {
		for j, e := range realEndings {
			t.Run(s.name+"/"+e.name, func(t *testing.T) {
				if !s.leaksAlone { // one browser at a time: they need much memory
					t.Parallel()
				}
				leaveNothing(t, s, e, []string{"--cgroup=auto", "--cgroup=off"}[(i+j)%2])
			})
		}
	}
}

func leaveNothing(t *testing.T, s realCase, e realEnding, flag string) {
	t.Helper()
	dir := realDir(t)
	session := logOnly(t, filepath.Join(dir, "log.json"), "")
	server := s.server(t, dir)
	argv := session.Wrap([]string{flag}, append([]string{server.Command}, server.Args...)...)
	server.Command, server.Args = argv[0], argv[1:]

	client := startUsing(t, dir, server)
	e.end(client)
	if left := stage.Outlasting(testkit.Patience, client.family...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if left := findKin(dir); len(left) > 0 {
		t.Errorf("born late and left behind: %v", left)
	}
	event := session.EndedWhole(e.causes...)
	t.Logf("cause %s, %d processes gone in %.0f ms", event.Cause, len(client.family), *event.TeardownMS)
	checkNoRecords(t, dir)
	if leaf := stage.CgroupLeaf(event.Session); leaf != "" {
		t.Errorf("cgroup left: %s", leaf)
	}
}

// The negative control: without mcp-tether each of these endings leaves a browser behind.
func TestRealServersLeakAlone(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	for _, s := range realServers {
		if !s.leaksAlone {
			continue
		}
		for _, e := range realEndings {
			t.Run(s.name+"/"+e.name, func(t *testing.T) {
				dir := realDir(t)
				client := startUsing(t, dir, s.server(t, dir))
				e.end(client)
				left := stage.Outlasting(leakPatience, client.family...)
				if len(left) == 0 {
					t.Fatal("the bare run left nothing, so the tethered one proves nothing")
				}
				t.Logf("left behind: %d of %d processes", len(left), len(client.family))
			})
		}
	}
}

// realDir is short where t.TempDir is long: Chromium puts a socket into it, and those have room for 107 bytes.
// Processes that still belong to the family are ended before it is removed.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcp-tether-e2e-") //nolint:usetesting // t.TempDir is too long, see above
	ok(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the test's directory: %v", err)
		}
	})
	return dir
}

func checkNoRecords(t *testing.T, runtime string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(runtime, "mcp-tether"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("look for records: %v", err)
	}
	if len(files) > 0 {
		t.Errorf("records are left: %v", files)
	}
}

// An sdkClient is a gateway: a Node process with the official SDK, see npm/patient.mjs.
type sdkClient struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	orders io.WriteCloser
	// The client's answers; the pipe is kept for its deadline.
	pipe    *os.File
	answers *bufio.Reader
	stderr  string
	// Every process below the client or with its mark, at the time when the server had answered.
	family []proc
}

// startUsing returns once the server has answered a tool call.
func startUsing(t *testing.T, dir string, server realServer) *sdkClient {
	t.Helper()
	c := startSDKClient(t, dir, server.toldServer)
	c.call(server.tool, server.arguments)
	c.family = findKin(dir, c.cmd.Process.Pid)
	return c
}

// startSDKClient returns once the client has met its server.
func startSDKClient(t *testing.T, dir string, server toldServer) *sdkClient {
	t.Helper()
	testkit.Long(t)
	_, err := exec.LookPath("node")
	testkit.Lacks(t, testkit.NPM, err != nil, "node")
	for _, file := range []string{everythingJS, "node_modules/@modelcontextprotocol/client"} {
		_, err = os.Stat(filepath.Join("npm", file))
		testkit.Lacks(t, testkit.NPM, err != nil, "npm packages (npm ci in e2e/npm)")
	}
	config, err := json.Marshal(server)
	ok(t, err)
	c := &sdkClient{t: t, dir: dir, cmd: exec.Command("node", cmp.Or(server.Client, "patient.mjs"), string(config)), stderr: filepath.Join(dir, "stderr")}
	c.cmd.Dir = "npm"
	c.run()
	t.Cleanup(c.endAll)
	if answer := c.hear(); answer.Event != "ready" || answer.Error || answer.Text == "0" {
		t.Fatalf("the server does not work: %+v\n%s", answer, c.complaint())
	}
	return c
}

// order has the client do something, and expects no error.
func (c *sdkClient) order(order map[string]any) sdkAnswer {
	c.t.Helper()
	b, err := json.Marshal(order)
	ok(c.t, err)
	_, err = fmt.Fprintf(c.orders, "%s\n", b)
	ok(c.t, err)
	answer := c.hear()
	if answer.Error {
		c.t.Fatalf("the client saw an error: %+v\n%s", answer, c.complaint())
	}
	return answer
}

func (c *sdkClient) call(name string, arguments any) sdkAnswer {
	c.t.Helper()
	return c.order(map[string]any{"call": map[string]any{"name": name, "arguments": arguments}})
}

func (c *sdkClient) run() {
	c.t.Helper()
	// A file, because a pipe would be held open by every process that is left behind.
	stderr, err := os.Create(c.stderr)
	ok(c.t, err)
	defer stderr.Close()
	pipe, stdout, err := os.Pipe()
	ok(c.t, err)
	defer stdout.Close()
	c.cmd.Stdout, c.cmd.Stderr = stdout, stderr
	c.pipe, c.answers = pipe, bufio.NewReader(pipe)
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatalf("start the client: %v", err)
	}
}

type sdkAnswer struct {
	Event, Text string
	Error       bool
	// What came before the answer.
	Updated, Complaints []string
}

func (c *sdkClient) hear() sdkAnswer {
	c.t.Helper()
	ok(c.t, c.pipe.SetReadDeadline(time.Now().Add(startPatience)))
	line, err := c.answers.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("hear from the client: %v\n%s", err, c.complaint())
	}
	var answer sdkAnswer
	if err := json.Unmarshal(line, &answer); err != nil {
		c.t.Fatalf("parse the client's %q: %v", line, err)
	}
	return answer
}

func (c *sdkClient) complaint() string {
	text, err := os.ReadFile(c.stderr)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// close lets the SDK shut the server down as it thinks best, which ends with SIGTERM and SIGKILL to its direct child.
func (c *sdkClient) close() {
	c.t.Helper()
	c.order(map[string]any{"close": true})
	_ = c.orders.Close()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the client failed: %v\n%s", err, c.complaint())
	}
}

func (c *sdkClient) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("send the client %v: %v", s, err)
	}
	_ = c.cmd.Wait()
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != s {
		c.t.Errorf("want the client dead of %v, got %v", s, c.cmd.ProcessState)
	}
}

// endAll leaves no process behind, whatever the test has found.
func (c *sdkClient) endAll() {
	var roots []int
	if c.cmd.ProcessState == nil {
		roots = append(roots, c.cmd.Process.Pid)
	}
	endKin(c.t, append(findKin(c.dir, roots...), slices.DeleteFunc(c.family, func(p proc) bool { return !p.Lives() })...))
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
	_ = c.pipe.Close()
}
