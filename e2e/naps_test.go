package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Conversations with real servers that fall asleep at random moments: what the client is answered is what the bare server says, once.

// serversVar names the directory in which the packages of e2e/servers were installed.
const serversVar = "MCP_TETHER_TEST_SERVERS"

// sleepyServer is a server that keeps nothing in its memory that its answers tell of.
type sleepyServer struct {
	argv []string // The first is below node_modules/.bin.
	env  string
	// ask are requests beyond those that follow from its lists.
	ask []string
}

const (
	mcpApp = "--stdio"
	slowly = `tools/call {"name":"trigger-long-running-operation","arguments":{"duration":0.6,"steps":3},"_meta":{"progressToken":"t"}}`
)

var sleepyServers = []sleepyServer{
	{argv: []string{"mcp-server-everything"}, ask: []string{
		slowly, `tools/call {"name":"echo","arguments":{"message":"é"}}`, `tools/call {"name":"get-sum","arguments":{"a":1,"b":2}}`,
		`resources/subscribe {"uri":"demo://resource/dynamic/text/1"}`, `resources/unsubscribe {"uri":"demo://resource/dynamic/text/1"}`,
		`logging/setLevel {"level":"error"}`, `prompts/get {"name":"args-prompt","arguments":{"city":"Rome"}}`,
	}},
	{argv: []string{"mcp-server-filesystem", "."}, ask: []string{
		`tools/call {"name":"list_allowed_directories","arguments":{}}`, `tools/call {"name":"read_text_file","arguments":{"path":"hello"}}`,
		`tools/call {"name":"read_text_file","arguments":{"path":"/etc/passwd"}}`,
	}},
	{argv: []string{"mcp-server-memory"}, env: "MEMORY_FILE_PATH=memory.json", ask: []string{
		`tools/call {"name":"read_graph","arguments":{}}`, `tools/call {"name":"search_nodes","arguments":{"query":"e"}}`,
	}},
	{argv: []string{"mcp-server-sequential-thinking"}},
	{argv: []string{"calc-mcp"}, ask: []string{
		`tools/call {"name":"math","arguments":{"action":"eval","expression":"6*7"}}`, `tools/call {"name":"base64","arguments":{"input":"hello","action":"encode"}}`,
		`tools/call {"name":"hash","arguments":{"input":"hello","algorithm":"sha256"}}`, `tools/call {"name":"convert","arguments":{"value":1,"from":"km","to":"m"}}`,
	}},
	{argv: []string{"mcp-budget-allocator-server", mcpApp}, ask: []string{`tools/call {"name":"get-budget-data","arguments":{}}`}},
	{argv: []string{"mcp-cohort-heatmap-server", mcpApp}},
	{argv: []string{"mcp-customer-segmentation-server", mcpApp}},
	{argv: []string{"mcp-scenario-modeler-server", mcpApp}, ask: []string{`tools/call {"name":"get-scenario-data","arguments":{}}`}},
	{argv: []string{"mcp-shadertoy-server", mcpApp}, ask: []string{`tools/call {"name":"render-shadertoy","arguments":{}}`}},
	{argv: []string{"mcp-sheet-music-server", mcpApp}, ask: []string{`tools/call {"name":"play-sheet-music","arguments":{}}`}},
	{argv: []string{"mcp-threejs-server", mcpApp}, ask: []string{`tools/call {"name":"learn_threejs","arguments":{}}`}},
	{argv: []string{"mcp-transcript-server", mcpApp}, ask: []string{`tools/call {"name":"transcribe","arguments":{}}`}},
	{argv: []string{"mcp-wiki-explorer-server", mcpApp}},
	{argv: []string{"mcp-server-postgres", "postgres://127.0.0.1:1/none"}, ask: []string{`tools/call {"name":"query","arguments":{"sql":"select 1"}}`}},
	{argv: []string{"mcp-server-github"}, env: "GITHUB_PERSONAL_ACCESS_TOKEN=none"},
	{argv: []string{"mcp-server-gitlab"}, env: "GITLAB_PERSONAL_ACCESS_TOKEN=none"},
	{argv: []string{"mcp-server-slack"}, env: "SLACK_BOT_TOKEN=none SLACK_TEAM_ID=none"},
	{argv: []string{"mcp-server-brave-search"}, env: "BRAVE_API_KEY=none"},
	{argv: []string{"mcp-server-google-maps"}, env: "GOOGLE_MAPS_API_KEY=none"},
}

func (s sleepyServer) name() string { return s.argv[0] }

// talker is a client over pipes, with an account of what it has asked and was answered.
type talker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte
	// wants is what each request is to be answered; nil takes anything, and keeps it in got.
	wants map[string]string
	got   map[string]string
	// open are the requests without an answer, given up those that were cancelled: they may be answered.
	open, givenUp map[int]string
	last          int
	wrong         []string
	told          int
	// spoil is a fault between server and client.
	spoil    func(line []byte) [][]byte
	patience time.Duration
}

// startTalker starts a command for a client.
func startTalker(t *testing.T, dir, env string, argv ...string) *talker {
	t.Helper()
	c := &talker{
		cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan []byte, 1024), got: map[string]string{}, open: map[int]string{}, givenUp: map[int]string{},
		patience: startPatience,
	}
	c.cmd.Dir = dir
	c.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir, "E2E_FAMILY=" + dir}, strings.Fields(env)...)
	out, err := c.cmd.StdoutPipe()
	ok(t, err)
	c.in, err = c.cmd.StdinPipe()
	ok(t, err)
	ok(t, c.cmd.Start())
	go func() {
		defer close(c.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			c.lines <- line
		}
	}()
	return c
}

func (c *talker) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (c *talker) say(format string, args ...any) { _, _ = fmt.Fprintf(c.in, format+"\n", args...) }

// ask sends a request, which is a method and its params.
func (c *talker) ask(question string) {
	c.last++
	method, params, _ := strings.Cut(question, " ")
	if params == "" {
		params = "{}"
	}
	c.open[c.last] = question
	c.say(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.last, method, params)
}

// giveUp cancels an open request.
func (c *talker) giveUp(id int) {
	if question, isOpen := c.open[id]; isOpen && question != hello {
		c.givenUp[id] = question
		delete(c.open, id)
		c.say(cancelRequest, id)
	}
}

// hear takes lines until all that it has asked is answered, or for a time.
func (c *talker) hear(within time.Duration) {
	over := time.After(within)
	for len(c.open) > 0 {
		select {
		case line, more := <-c.lines:
			if !more {
				c.complain("the connection was closed with open requests %v", c.open)
				clear(c.open)
				return
			}
			all := [][]byte{line}
			if c.spoil != nil {
				all = c.spoil(line)
			}
			for _, line := range all {
				c.take(line)
			}
		case <-over:
			return
		}
	}
}

// hearAll takes lines until all is answered.
func (c *talker) hearAll() {
	if c.hear(c.patience); len(c.open) > 0 {
		c.complain("not answered: %v", c.open)
		clear(c.open)
	}
}

func (c *talker) take(line []byte) {
	var m struct {
		ID            json.RawMessage
		Method        string
		Result, Error json.RawMessage
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil:
		c.complain("no message: %.200q", line)
	case m.Method == "roots/list":
		c.say(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file://%s"}]}}`, m.ID, c.cmd.Dir)
	case m.Method != "" && m.ID != nil:
		c.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case m.Method != "":
		c.told++
	default:
		id, _ := strconv.Atoi(string(m.ID))
		c.answered(id, strings.ReplaceAll(string(m.Result)+string(m.Error), c.cmd.Dir, "DIR"))
	}
}

func (c *talker) answered(id int, answer string) {
	question, isOpen := c.open[id]
	if _, may := c.givenUp[id]; !isOpen && may {
		delete(c.givenUp, id)
		return
	}
	if delete(c.open, id); !isOpen {
		c.complain("answered twice, or never asked: request %d: %.200s", id, answer)
	} else if want, known := c.wants[question]; known && want != answer {
		c.complain("request %d, %s: want %.300s, got %.300s", id, question, want, answer)
	}
	c.got[question] = answer
}

const hello = `initialize {"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"nap","version":"0"}}`

func (c *talker) greet() {
	c.ask(hello)
	c.hearAll()
	c.say(initialized)
}

// bye closes the client's end, and waits.
func (c *talker) bye() {
	_ = c.in.Close()
	over := time.AfterFunc(c.patience, func() { _ = c.cmd.Process.Kill() })
	defer over.Stop()
	for line := range c.lines {
		c.take(line)
	}
	_ = c.cmd.Wait()
}

// questions are what a server is asked, with the answers of two that nothing stands before. What these answer in different ways is
// left out.
func (s sleepyServer) questions(t *testing.T, bin, dir string) map[string]string {
	t.Helper()
	var both [2]map[string]string
	for i := range both {
		c := startTalker(t, dir, s.env, append([]string{filepath.Join(bin, s.argv[0])}, s.argv[1:]...)...)
		c.greet()
		for _, method := range []string{"ping", "tools/list", "resources/list", "resources/templates/list", "prompts/list", "tools/call {\"name\":\"none\"}"} {
			c.ask(method)
		}
		c.hearAll()
		for _, question := range append(c.listed(), s.ask...) {
			c.ask(question)
			c.hearAll()
		}
		c.bye()
		if len(c.wrong) > 0 {
			t.Fatalf("%s by itself: %v", s.name(), c.wrong)
		}
		both[i] = c.got
	}
	for question, answer := range both[0] {
		if both[1][question] != answer {
			delete(both[0], question)
		}
	}
	if len(both[0]) < 6 {
		t.Fatalf("%s answers only these alike: %v", s.name(), both[0])
	}
	return both[0]
}

// listed are requests that follow from the lists: resources to read, and calls that lack what they must have.
func (c *talker) listed() (all []string) {
	var lists struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Required []string }
		}
		Resources []struct{ URI string }
	}
	for _, method := range []string{"tools/list", "resources/list"} {
		_ = json.Unmarshal([]byte(c.got[method]), &lists)
	}
	for _, tool := range lists.Tools[:min(len(lists.Tools), 8)] {
		if len(tool.InputSchema.Required) > 0 {
			all = append(all, fmt.Sprintf(`tools/call {"name":%q,"arguments":{}}`, tool.Name))
		}
	}
	for _, resource := range lists.Resources[:min(len(lists.Resources), 3)] {
		all = append(all, fmt.Sprintf(`resources/read {"uri":%q}`, resource.URI))
	}
	return all
}

// converse has a client ask at random, with pauses about as long as it takes the server to fall asleep, until it has slept often enough.
func (c *talker) converse(r *rand.Rand, idle time.Duration, rounds int, restart func()) {
	var all []string
	for question := range c.wants {
		if question != hello {
			all = append(all, question)
		}
	}
	slices.Sort(all)
	c.greet()
	for range rounds {
		for range 1 + r.IntN(4) {
			c.ask(all[r.IntN(len(all))])
		}
		switch r.IntN(8) {
		case 0:
			c.giveUp(c.last)
		case 1:
			c.hear(time.Duration(r.Int64N(int64(idle))))
			restart()
		case 2:
			c.say(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		}
		if r.IntN(6) > 0 {
			c.hearAll()
		}
		pause(idle/2 + time.Duration(r.Int64N(int64(5*idle/2))))
	}
	c.hearAll()
	c.bye()
}

// naps is what all conversations have come to.
type naps struct {
	sync.Mutex
	bin                string
	seed               uint64
	answers            []map[string]string
	slept, asked, told int
	shared, restarts   int
	each               []int
	wrong              []string
}

// conversation is the nth: one client, or three that share.
func (n *naps) conversation(t *testing.T, nth int) {
	r := rand.New(rand.NewPCG(n.seed, uint64(nth)))
	which, clients := nth%len(sleepyServers), 1
	s := sleepyServers[which]
	dir := helloDir(t)
	idle := time.Duration(100+r.IntN(300)) * time.Millisecond
	flags := []string{"--hibernate=" + idle.String(), "--log-format=json", "--log-level=info", "--eof-grace=2s"}
	if r.IntN(5) == 0 {
		flags, clients = append(flags, "--share", "--share-linger=1s"), 3
	}
	rounds := 8 + r.IntN(8)
	var all []*talker
	var wait sync.WaitGroup
	var restarts atomic.Int32
	for i := range clients {
		argv := slices.Concat([]string{tether, "run"}, flags, []string{fmt.Sprintf("--log-file=%s/log.%d", dir, i), "--", filepath.Join(n.bin, s.argv[0])}, s.argv[1:])
		c := startTalker(t, dir, s.env, argv...)
		c.wants = n.answers[which]
		all = append(all, c)
		own := rand.New(rand.NewPCG(r.Uint64(), uint64(i)))
		wait.Go(func() {
			c.converse(own, idle, rounds, func() {
				if clients > 1 { // Open calls of the others would get errors.
					return
				}
				restarts.Add(1)
				wait.Go(func() { _ = (caller{runtime: dir}).command("restart", "--all", "--yes").Run() })
			})
		})
	}
	wait.Wait()
	n.Lock()
	defer n.Unlock()
	n.restarts += int(restarts.Load())
	for i, c := range all {
		log, _ := os.ReadFile(fmt.Sprintf("%s/log.%d", dir, i))
		slept := bytes.Count(log, []byte(`"server sleeps"`))
		n.slept += slept
		n.each[which] += slept
		if clients > 1 {
			n.shared += slept
		}
		n.asked, n.told = n.asked+c.last, n.told+c.told
		if len(c.wrong) > 0 {
			n.wrong = append(n.wrong, fmt.Sprintf("conversation %d, %s, client %d of %d: %s\n%s", nth, s.name(), i, clients, strings.Join(c.wrong, "\n"), log))
		}
	}
	if left := stage.Outlasting(testkit.Patience, findKin(dir)...); len(left) > 0 { // A shared server lingers.
		n.wrong = append(n.wrong, fmt.Sprintf("conversation %d, %s: left behind: %v", nth, s.name(), left))
		endKin(t, left)
	}
}

// helloDir is a server's directory, with a file.
func helloDir(t *testing.T) string {
	t.Helper()
	dir := realDir(t)
	ok(t, os.WriteFile(filepath.Join(dir, "hello"), []byte("hello"), 0o600))
	return dir
}

// serversBin is where the servers' programs are.
func serversBin(t *testing.T) string {
	t.Helper()
	testkit.Proof(t)
	dir := os.Getenv(serversVar)
	testkit.Lacks(t, testkit.NPM, dir == "", "the packages of e2e/servers, in "+serversVar)
	return filepath.Join(dir, "node_modules/.bin")
}

// A thousand moments of sleep, with all servers: no answer is lost, doubled, or other than that of the bare server. Meanwhile some
// are started again (mcp-tether restart), calls are cancelled, and clients share a server.
func TestNaps(t *testing.T) {
	const limit = 15 * time.Minute
	n := &naps{bin: serversBin(t), seed: testkit.Seed(t), each: make([]int, len(sleepyServers)), answers: make([]map[string]string, len(sleepyServers))}
	want := testkit.Rounds(100)
	var wait sync.WaitGroup
	for i, s := range sleepyServers {
		wait.Go(func() { n.answers[i] = s.questions(t, n.bin, helloDir(t)) })
	}
	wait.Wait()
	began, told := time.Now(), 0
	var next atomic.Int64
	for range 2 * runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				n.Lock()
				if n.slept >= told+100 {
					told = n.slept
					t.Logf("%d moments of sleep after %.0f s", told, time.Since(began).Seconds())
				}
				done := n.slept >= want || len(n.wrong) > 0 || time.Since(began) > limit
				n.Unlock()
				if done {
					return
				}
				n.conversation(t, int(next.Add(1)-1))
			}
		})
	}
	wait.Wait()
	t.Logf("%d moments of sleep with %d servers (%v), %d of them of sessions that share, %d restarts, in %d conversations; %d requests, %d notifications; %.0f s",
		n.slept, len(sleepyServers), n.each, n.shared, n.restarts, next.Load(), n.asked, n.told, time.Since(began).Seconds())
	for _, what := range n.wrong {
		t.Error(what)
	}
	if n.slept < want/2 {
		t.Errorf("only %d moments of sleep", n.slept)
	}
}

// The control: an answer that is dropped, doubled or changed between server and client is noticed.
func TestNapsNoticed(t *testing.T) {
	bin := serversBin(t)
	s := sleepyServers[slices.IndexFunc(sleepyServers, func(s sleepyServer) bool { return s.name() == "calc-mcp" })]
	answers := s.questions(t, bin, helloDir(t))
	for _, c := range []struct {
		name, want string
		spoil      func(line []byte) [][]byte
	}{
		{"dropped", "not answered: map[5:", func([]byte) [][]byte { return nil }},
		{"doubled", "answered twice, or never asked: request 5:", func(line []byte) [][]byte { return [][]byte{line, line} }},
		{"changed", "request 5, ", func(line []byte) [][]byte { return [][]byte{bytes.Replace(line, []byte(`":"`), []byte(`":"x`), 1)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := helloDir(t)
			talker := startTalker(t, dir, s.env, tether, "run", "--hibernate=200ms", "--", filepath.Join(bin, s.argv[0]))
			talker.wants, talker.patience = answers, 5*time.Second
			talker.spoil = func(line []byte) [][]byte {
				if bytes.Contains(line, []byte(`"id":5`)) {
					return c.spoil(line)
				}
				return [][]byte{line}
			}
			talker.converse(rand.New(rand.NewPCG(5, 5)), 200*time.Millisecond, 6, func() {})
			if len(talker.wrong) != 1 || !strings.HasPrefix(talker.wrong[0], c.want) {
				t.Errorf("found: %v", talker.wrong)
			}
		})
	}
}
