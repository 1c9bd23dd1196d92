package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Real gateways, as npm has them, talk to a model that is ours. They have a network of their own, with nothing in it
// but the model. Each writes its configuration itself, mcp-tether wrap changes it, and the gateway must still start the
// server and call its tool. However the gateway then ends, nothing of the server is left. With the configuration as the
// gateway wrote it, something is left.

// realGateway is one of them.
type realGateway struct {
	name, file string // of its configuration, relative to the home directory
	// before is what the configuration holds before add, with the model's address for %s.
	before string
	// add are the words that have the gateway write the server into its configuration. The command follows, or an object with
	// it takes the place of @SERVER.
	add []string
	// prompt are the words that have it ask the model once.
	prompt []string
	env    []string
	// inner is the name of the process that starts the servers, where several processes stand between it and them.
	inner string
}

// openClawDir names the directory in which npm has installed what openclaw/package.json wants, if that is another one; "none" if
// it cannot be had.
const openClawDir = "MCP_TETHER_TEST_OPENCLAW"

func realGateways(base string) []realGateway {
	return []realGateway{
		{
			name: "codex", file: ".codex/config.toml",
			// A turn waits one second for a server, and then goes on without it, unless it may wait for all of the server's start.
			before: fmt.Sprintf("mcp_optional_startup_grace_ms = 0\nmodel = \"m\"\nmodel_provider = \"mock\"\napproval_policy = \"never\"\n\n[model_providers.mock]\nname = \"mock\"\nbase_url = \"%s/v1\"\nwire_api = \"responses\"\n", base),
			add:    []string{"mcp", "add", "every", "--env", "@MARK", "--"},
			prompt: []string{"exec", "-c", "mcp_servers.every.startup_timeout_sec=120", "--skip-git-repo-check", "say"},
		},
		{
			name: "claude", file: ".claude.json",
			add:    []string{"mcp", "add", "-s", "user", "every", "-e", "@MARK", "--"},
			prompt: []string{"-p", "--allowedTools", "mcp__every__echo", "--", "say"},
			// A turn waits some seconds for a server, and then goes on without it.
			env: []string{"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
				"MCP_CONNECT_TIMEOUT_MS=120000", "MCP_TIMEOUT=120000"},
		},
		{
			name: "gemini", file: ".gemini/settings.json",
			before: `{"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}}}`,
			add:    []string{"mcp", "add", "-s", "user", "--trust", "-e", "@MARK", "every"},
			prompt: []string{"--allowed-mcp-server-names", "every", "-m", "gemini-2.5-flash", "-p", "say"},
			env:    []string{"GOOGLE_GEMINI_BASE_URL=" + base, "GEMINI_API_KEY=none"},
		},
		{
			name: "openclaw", file: ".openclaw/openclaw.json",
			// Without its plugins it takes a third less time to start.
			before: fmt.Sprintf(`{
  plugins: { enabled: false }, logging: { level: "silent" }, tools: { toolSearch: false }, agents: { defaults: { model: { primary: "mock/m" } } },
  models: { providers: { mock: { baseUrl: "%s/v1", apiKey: "none", api: "openai-responses", models: [{ id: "m", name: "m" }] } } },
}`, base),
			add:    []string{"mcp", "set", "every", "@SERVER"},
			prompt: []string{"agent", "--local", "--session-id", "@TURN", "-m", "say"},
			inner:  "openclaw-agent",
		},
	}
}

// bin is the program of a gateway, and what it needs in front of PATH: it may want another Node.js than ours.
func (g realGateway) bin() (program, path string) {
	dir := "gateways"
	if g.name == "openclaw" {
		dir = cmp.Or(os.Getenv(openClawDir), "openclaw")
	}
	modules, _ := filepath.Abs(filepath.Join(dir, "node_modules"))
	program = filepath.Join(modules, ".bin", g.name)
	if g.name != "openclaw" {
		return program, ""
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	return program, filepath.Join(modules, "node-linux-"+cmp.Or(arch, runtime.GOARCH), "bin") + ":"
}

// model answers the first question with a call of the tool echo, and the next with a word, once it may.
type model struct {
	// echoed gets what the tool has answered.
	echoed chan string
	// hold keeps the last answer back until it is closed; nil answers at once.
	hold chan struct{}
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var call, word func(tool [2]string) []string
	tools := toolsIn(body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/responses"):
		call, word = codexCall, codexWord
	case strings.HasSuffix(r.URL.Path, "/messages"):
		call, word = claudeCall, claudeWord
	case strings.Contains(r.URL.Path, "enerateContent"):
		call, word = geminiCall, geminiWord
	default:
		_, _ = io.WriteString(w, "{}")
		return
	}
	answer := word
	if i := bytes.Index(body, []byte("Echo: ")); i >= 0 {
		m.tell(string(body[i:min(len(body), i+len("Echo: hello"))]))
		if m.hold != nil {
			select {
			case <-m.hold:
			case <-r.Context().Done():
			}
		}
	} else if tools[1] != "" {
		answer = call
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range answer(tools) {
		if rest, found := strings.CutPrefix(event, `{"type":"`); found { // Gemini's have none.
			kind, _, _ := strings.Cut(rest, `"`)
			_, _ = fmt.Fprintf(w, "event: %s\n", kind)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
	}
}

func (m *model) tell(text string) {
	select {
	case m.echoed <- text:
	default:
	}
}

// toolsIn finds the tool whose name has "echo" in what a gateway offers to the model: its namespace, if any, and name.
func toolsIn(body []byte) [2]string {
	var request struct{ Tools []json.RawMessage }
	_ = json.Unmarshal(body, &request)
	type tool struct {
		Name                 string
		Tools                []tool
		FunctionDeclarations []tool
	}
	for _, raw := range request.Tools {
		var t tool
		_ = json.Unmarshal(raw, &t)
		if strings.HasSuffix(t.Name, "echo") {
			return [2]string{"", t.Name}
		}
		for _, inner := range append(t.Tools, t.FunctionDeclarations...) {
			if strings.HasSuffix(inner.Name, "echo") {
				return [2]string{t.Name, inner.Name}
			}
		}
	}
	return [2]string{}
}

// The three protocols, as far as one tool call and one word take: the events of an answer.

func codexCall(tool [2]string) []string {
	namespace := ""
	if tool[0] != "" {
		namespace = fmt.Sprintf(`,"namespace":%q`, tool[0])
	}
	return codexEvents(fmt.Sprintf(`{"type":"function_call","id":"f","call_id":"c","name":%q,"arguments":"{\"message\":\"hello\"}"%s}`, tool[1], namespace))
}

func codexWord([2]string) []string {
	return codexEvents(`{"type":"message","role":"assistant","id":"m","content":[{"type":"output_text","text":"done"}]}`)
}

func codexEvents(item string) []string {
	return []string{
		`{"type":"response.created","response":{"id":"r"}}`,
		`{"type":"response.output_item.done","output_index":0,"item":` + item + `}`,
		`{"type":"response.completed","response":{"id":"r","usage":` +
			`{"input_tokens":1,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":2}}}`,
	}
}

func claudeCall(tool [2]string) []string {
	return claudeEvents(fmt.Sprintf(`{"type":"tool_use","id":"t","name":%q,"input":{}}`, tool[1]), `{"type":"input_json_delta","partial_json":"{\"message\":\"hello\"}"}`, "tool_use")
}

func claudeWord([2]string) []string {
	return claudeEvents(`{"type":"text","text":""}`, `{"type":"text_delta","text":"done"}`, "end_turn")
}

func claudeEvents(block, delta, reason string) []string {
	const usage = `"usage":{"input_tokens":1,"output_tokens":1}}`
	return []string{
		`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,` + usage + `}`,
		`{"type":"content_block_start","index":0,"content_block":` + block + `}`,
		`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},` + usage,
		`{"type":"message_stop"}`,
	}
}

func geminiCall(tool [2]string) []string {
	return geminiEvents(fmt.Sprintf(`{"functionCall":{"name":%q,"args":{"message":"hello"}}}`, tool[1]))
}

func geminiWord([2]string) []string { return geminiEvents(`{"text":"done"}`) }

func geminiEvents(part string) []string {
	return []string{`{"candidates":[{"content":{"role":"model","parts":[` + part + `]},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`}
}

// listenAlone makes the thread's own network namespace, which has nothing but a loopback device, and listens there. The thread
// is of no use to others any more, so it must end with its goroutine.
func listenAlone() (net.Listener, error) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("leave the network: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return nil, fmt.Errorf("loopback device: %w", err)
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// gatewayStage is one gateway with its home, its model and its server.
type gatewayStage struct {
	t    *testing.T
	g    realGateway
	h    wrapHome
	m    *model
	mark string
	file string
	turn int
	// start starts a process in the gateway's network.
	start func(cmd *exec.Cmd)
}

func newStage(t *testing.T, name string) *gatewayStage {
	t.Helper()
	testkit.Need(t, testkit.Namespaces)
	program, _ := realGateway{name: name}.bin()
	_, err := os.Stat(program)
	testkit.Lacks(t, testkit.Gateways, err != nil, "gateways from npm ("+program+")")
	s := &gatewayStage{t: t, h: newWrapHome(t), m: &model{echoed: make(chan string, 1)}}
	s.mark = "E2E_GATEWAY_MARK=" + filepath.Base(filepath.Dir(s.h.dir)) + strconv.Itoa(os.Getpid())
	starts, results := make(chan *exec.Cmd), make(chan error)
	var l net.Listener
	go func() {
		var err error
		l, err = listenAlone()
		results <- err
		for cmd := range starts {
			results <- cmd.Start()
		}
	}()
	if err := <-results; err != nil {
		close(starts)
		t.Fatal(err)
	}
	server := &http.Server{Handler: s.m, ReadHeaderTimeout: testkit.Patience}
	go func() { _ = server.Serve(l) }()
	s.start = func(cmd *exec.Cmd) { t.Helper(); starts <- cmd; ok(t, <-results) }
	t.Cleanup(func() { _ = server.Close(); close(starts) })
	for _, g := range realGateways("http://" + l.Addr().String()) {
		if g.name == name {
			s.g = g
		}
	}
	s.file = filepath.Join(s.h.dir, s.g.file)
	s.configure()
	t.Cleanup(s.sweep)
	return s
}

// configure has the gateway write its configuration: server-everything with a helper that detaches itself.
func (s *gatewayStage) configure() {
	s.t.Helper()
	if s.g.before != "" {
		s.h.put(s.g.file, s.g.before)
	}
	js, err := filepath.Abs("npm/" + everythingJS)
	ok(s.t, err)
	var words []string
	for _, w := range s.g.add {
		words = append(words, strings.Replace(w, "@MARK", s.mark, 1))
	}
	command := []string{"/bin/sh", "-c", "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exec " + js + " stdio"}
	if i := slices.Index(words, "@SERVER"); i >= 0 {
		name, value, _ := strings.Cut(s.mark, "=")
		server, err := json.Marshal(map[string]any{"command": command[0], "args": command[1:], "env": map[string]string{name: value}})
		ok(s.t, err)
		words[i] = string(server)
	} else {
		words = append(words, command...)
	}
	cmd := s.command(words)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	s.start(cmd)
	if err := cmd.Wait(); err != nil || !strings.Contains(s.h.text(s.file), js) {
		s.t.Fatalf("%s %q: %v\n%s", s.g.name, words, err, out.String())
	}
}

func (s *gatewayStage) command(words []string) *exec.Cmd {
	program, path := s.g.bin()
	cmd := exec.Command(program, words...)
	cmd.Dir = s.h.dir
	cmd.Env = append([]string{"HOME=" + s.h.dir, "TMPDIR=" + s.h.dir, "PATH=" + path + filepath.Dir(tether) + ":" + os.Getenv("PATH"), "TERM=dumb"}, s.g.env...)
	return cmd
}

// marked are the processes of the server and of what it started, ours not among them.
func (s *gatewayStage) marked() []proc { return stage.Marked(s.mark) }

// sweep ends what the negative control has left, by its mark.
func (s *gatewayStage) sweep() {
	for _, p := range s.marked() {
		_ = p.Signal(unix.SIGKILL)
	}
	testkit.Until(s.t, "the end of what was left", func() bool { return len(s.marked()) == 0 })
}

// killAll ends the gateway with all that it started: what npm starts it by passes no SIGKILL on.
func (s *gatewayStage) killAll() {
	for _, p := range stage.Marked("HOME=" + s.h.dir) {
		_ = p.Signal(unix.SIGKILL)
	}
}

// gateway is the process that has started the session, or for the bare server its parent's: a launcher may stand between us
// and it.
func (s *gatewayStage) gateway() int {
	s.t.Helper()
	for _, p := range s.marked() {
		if p.PPID > 1 && !slices.Contains(stage.Describe(p.PPID).Environ(), s.mark) {
			return s.outwards(p.PPID)
		}
	}
	s.t.Fatal("no gateway")
	return 0
}

// outwards is the first process, from pid up through its parents, that has the name of those that start servers.
func (s *gatewayStage) outwards(pid int) int {
	s.t.Helper()
	p := stage.Describe(pid)
	for s.g.inner != "" && p.Comm != s.g.inner {
		if p.PPID == 0 {
			s.t.Fatalf("no %s above process %d", s.g.inner, pid)
		}
		p = stage.Describe(p.PPID)
	}
	return p.PID
}

func TestRealGateways(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	for _, c := range [][2]string{{"codex", "end"}, {"codex", "SIGTERM"}, {"codex", "SIGKILL"}, {"claude", "SIGKILL"}, {"gemini", "SIGKILL"}} {
		t.Run(c[0]+"/"+c[1], func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c[0])
			before := s.h.text(s.file)
			s.wrapped("wrap", "--yes", s.g.name, "--", "--term-grace", "300ms")
			s.wrapped("unwrap", "--yes", s.g.name)
			if now := s.h.text(s.file); now != before {
				t.Errorf("after unwrap the configuration is\n%s\nand was\n%s", now, before)
			}
			if c[1] == "end" {
				s.wrapped("wrap", "--yes", s.g.name, "--", "--lazy", "--hibernate", "30m")
			} else {
				s.wrapped("wrap", "--yes", s.g.name, "--", "--term-grace", "300ms")
			}
			s.play(c[1])
			testkit.Until(t, "nothing of the server is left", func() bool { return len(s.marked()) == 0 })
		})
	}
}

// The negative control: as the gateway wrote it, the server leaves its helper behind.
func TestRealGatewaysLeakBare(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	for _, name := range []string{"codex", "claude", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, name)
			s.play("SIGKILL")
			outgrow(t)
			if len(s.marked()) == 0 {
				t.Error("nothing is left: the test shows nothing")
			}
		})
	}
}

// OpenClaw takes as long as the other three together, so all is done with one configuration.
func TestRealOpenClaw(t *testing.T) {
	testkit.Proof(t)
	testkit.Lacks(t, testkit.OpenClaw, os.Getenv(openClawDir) == "", openClawDir+" is not set")
	t.Parallel()
	s := newStage(t, "openclaw")
	before := s.h.text(s.file)
	s.wrapped("wrap", "--yes", s.g.name, "--", "--lazy", "--hibernate", "30m")
	for _, ending := range []string{"end", "SIGTERM", "SIGKILL"} {
		s.play(ending)
		testkit.Until(t, ending+": nothing of the server is left", func() bool { return len(s.marked()) == 0 })
		s.wrapped("wrap", "--yes", s.g.name, "--", "--term-grace", "300ms")
	}
	s.wrapped("unwrap", "--yes", s.g.name)
	if now := s.h.text(s.file); now != before {
		t.Errorf("after unwrap the configuration is\n%s\nand was\n%s", now, before)
	}
	// The control.
	s.play("SIGTERM")
	outgrow(t)
	if len(s.marked()) == 0 {
		t.Error("nothing is left of a server that is not wrapped: the test shows nothing")
	}
}

func (s *gatewayStage) wrapped(args ...string) {
	s.t.Helper()
	if o := s.h.run(args...); o.code != 0 {
		s.t.Fatalf("%v: %+v", args, o)
	}
}

// play has the gateway call the tool, and ends it.
func (s *gatewayStage) play(ending string) {
	s.t.Helper()
	if ending != "end" {
		s.m.hold = make(chan struct{})
		defer close(s.m.hold)
	}
	s.turn++
	words := slices.Clone(s.g.prompt)
	if i := slices.Index(words, "@TURN"); i >= 0 {
		words[i] = "turn-" + strconv.Itoa(s.turn) // in a session of its own, which knows nothing of the last one
	}
	cmd := s.command(words)
	out, err := os.CreateTemp(s.t.TempDir(), "")
	ok(s.t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	s.start(cmd)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case text := <-s.m.echoed:
		if text != "Echo: hello" {
			s.t.Errorf("the tool answered %q", text)
		}
	case <-time.After(testkit.Patience):
		s.killAll()
		s.t.Fatalf("%s did not call the tool:\n%s", s.g.name, s.h.text(out.Name()))
	}
	if ending != "end" {
		sig := unix.SignalNum(ending)
		ok(s.t, syscall.Kill(s.gateway(), sig))
	}
	select {
	case err := <-ended:
		if ending == "end" && err != nil {
			s.t.Errorf("%s: %v\n%s", s.g.name, err, s.h.text(out.Name()))
		}
	case <-time.After(testkit.Patience):
		s.killAll()
		s.t.Errorf("%s has not ended:\n%s", s.g.name, s.h.text(out.Name()))
	}
}
