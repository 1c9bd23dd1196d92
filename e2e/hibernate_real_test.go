package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-tether/internal/testkit"
)

// The official SDK's client in front of real servers that sleep between its calls: it must not see an error, ever.

// A patientClient is such a client, see npm/patient.mjs.
type patientClient struct {
	*sdkClient
	s   *session
	got string // what the servers receive, if that is recorded
	// slept is how often the server had slept at the start of the cycle.
	slept int
}

// toldServer is the client's configuration.
type toldServer struct {
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Protocol string            `json:"protocol,omitempty"`
	Roots    []string          `json:"roots,omitempty"`
	// Idle is the time of --hibernate, if not 1 s. server-everything asks for roots 350 ms after its start. One that
	// was put to sleep before that is not known to ask.
	Idle string `json:"-"`
	// Client is the script of the client, if not patient.mjs.
	Client string `json:"-"`
}

// recorded is a command line that writes down what the server gets.
func recorded(file string, argv ...string) []string {
	return append([]string{"sh", "-c", `got=$1; shift; tee -a "$got" | "$@"`, "sh", file}, argv...)
}

const (
	everythingJS = "node_modules/.bin/mcp-server-everything"
	filesystemJS = "node_modules/.bin/mcp-server-filesystem"
	memoryJS     = "node_modules/.bin/mcp-server-memory"
)

// startPatient returns once the client has met its server.
func startPatient(t *testing.T, dir string, server toldServer, argv ...string) *patientClient {
	t.Helper()
	testkit.Long(t)
	_, err := exec.LookPath("node")
	testkit.Need(t, err == nil, "node")
	for _, file := range []string{everythingJS, filesystemJS, memoryJS, "node_modules/@modelcontextprotocol/client"} {
		_, err = os.Stat(filepath.Join("npm", file))
		testkit.Need(t, err == nil, "npm packages (npm ci in e2e/npm)")
	}
	s := &session{t: t, log: filepath.Join(dir, "log.json"), runtime: dir}
	full := s.wrap(quick("--hibernate="+cmp.Or(server.Idle, "1s")), argv...) // Not all of these servers end at the end of their input.
	server.Command, server.Args = full[0], full[1:]
	env := realEnv(dir)
	for name, value := range server.Env {
		env[name] = value
	}
	server.Env = env
	config, err := json.Marshal(server)
	if err != nil {
		t.Fatal(err)
	}
	c := &sdkClient{t: t, dir: dir, cmd: exec.Command("node", cmp.Or(server.Client, "patient.mjs"), string(config)), stderr: filepath.Join(dir, "stderr")}
	c.cmd.Dir = "npm"
	c.run()
	t.Cleanup(c.endAll)
	p := &patientClient{sdkClient: c, s: s, got: filepath.Join(dir, "got")}
	if answer := c.hear(); answer.Event != "ready" || answer.Error || answer.Text == "0" {
		t.Fatalf("the server does not work: %+v\n%s", answer, c.complaint())
	}
	return p
}

// order has the client do something, and expects no error.
func (p *patientClient) order(order map[string]any) sdkAnswer {
	p.t.Helper()
	b, err := json.Marshal(order)
	if err == nil {
		_, err = fmt.Fprintf(p.orders, "%s\n", b)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	answer := p.hear()
	if answer.Error {
		log, _ := os.ReadFile(p.s.log)
		p.t.Fatalf("the client saw an error: %+v\n%s\n%s", answer, p.complaint(), log)
	}
	return answer
}

func (p *patientClient) call(name string, arguments any) sdkAnswer {
	p.t.Helper()
	return p.order(map[string]any{"call": map[string]any{"name": name, "arguments": arguments}})
}

// asleep waits until the server sleeps again. It may have slept more than once since the last time: a busy machine may take
// the idle time between two messages.
func (p *patientClient) asleep() {
	p.t.Helper()
	var r sleeper
	p.s.until("asleep", func() bool { r = p.s.sleeper(); return r.State == "asleep" && r.Sleeps > p.slept })
	p.slept = r.Sleeps
}

// woken counts the servers after the first. The session must be over.
func (p *patientClient) woken() int { return len(p.s.events("server woken")) }

// bye closes the client and looks for anything left.
func (p *patientClient) bye() {
	p.t.Helper()
	family := findKin(p.t, []int{p.cmd.Process.Pid}, p.dir)
	p.order(map[string]any{"close": true})
	_ = p.orders.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the client failed: %v\n%s", err, p.complaint())
	}
	if left := awaitKin(p.t, family, testkit.Patience); len(left) > 0 {
		p.t.Errorf("left behind: %v", left)
	}
	if left := findKin(p.t, nil, p.dir); len(left) > 0 {
		p.t.Errorf("born late and left behind: %v", left)
	}
	checkNoRecords(p.t, p.dir)
}

// A sleepCase is a real server, and a call that has the same answer whenever it is made.
type sleepCase struct {
	name string
	argv func(dir string) []string
	env  func(dir string) map[string]string
	// first is called once, before the first sleep; nil for nothing.
	first func(p *patientClient)
	again func(p *patientClient) string
	want  string
}

func sleepCases() []sleepCase {
	return []sleepCase{
		{
			name: "everything", argv: func(string) []string { return []string{"node", everythingJS} }, want: "hello",
			again: func(p *patientClient) string { return p.call("echo", map[string]string{"message": "hello"}).Text },
		},
		{
			name: "filesystem", argv: func(dir string) []string { return []string{"node", filesystemJS, dir} }, want: "kept",
			first: func(p *patientClient) {
				p.call("write_file", map[string]string{"path": filepath.Join(p.dir, "note"), "content": "kept"})
			},
			again: func(p *patientClient) string {
				return p.call("read_text_file", map[string]string{"path": filepath.Join(p.dir, "note")}).Text
			},
		},
		{
			name: "memory", argv: func(string) []string { return []string{"node", memoryJS} }, want: "remembered",
			env: func(dir string) map[string]string {
				return map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}
			},
			first: func(p *patientClient) {
				p.call("create_entities", map[string]any{"entities": []map[string]any{{"name": "a", "entityType": "b", "observations": []string{"remembered"}}}})
			},
			again: func(p *patientClient) string { return p.call("read_graph", map[string]string{}).Text },
		},
	}
}

func TestHibernateRealServers(t *testing.T) {
	t.Parallel()
	for _, n := range sleepCases() {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			n.test(t)
		})
	}
}

func (n sleepCase) test(t *testing.T) {
	dir := realDir(t)
	server := toldServer{Roots: []string{"file://" + dir}}
	if n.env != nil {
		server.Env = n.env(dir)
	}
	p := startPatient(t, dir, server, n.argv(dir)...)
	if n.first != nil {
		n.first(p)
	}
	cycles := rounds(50)
	for i := 1; i <= cycles; i++ {
		p.asleep()
		if i == 1 {
			p.alone()
		}
		if text := n.again(p); !strings.Contains(text, n.want) {
			t.Fatalf("cycle %d: the answer is %q, want %q in it", i, text, n.want)
		}
	}
	p.bye()
	if slept, woken := len(p.s.events("server sleeps")), p.woken(); woken < cycles || slept < woken {
		t.Errorf("%d sleeps and %d wakes in %d cycles", slept, woken, cycles)
	}
	if failed := p.s.events("server could not be woken"); len(failed) > 0 {
		t.Errorf("%s", failed)
	}
}

// alone expects that no process but the client and the wrapper is there.
func (p *patientClient) alone() {
	p.t.Helper()
	for _, k := range findKin(p.t, []int{p.cmd.Process.Pid}, p.dir) {
		if k.pid != p.cmd.Process.Pid && k.comm != "mcp-tether" {
			p.t.Errorf("beside the sleeping session there is %v", k)
		}
	}
}

// Each version of the protocol with a handshake: each server gets the client's own, once, and no request that another had.
func TestHibernateRealVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir := realDir(t)
			got := filepath.Join(dir, "got")
			p := startPatient(t, dir, toldServer{Protocol: version, Idle: "2s"}, recorded(got, "node", everythingJS)...)
			const cycles = 3
			for i := 1; i <= cycles; i++ {
				p.asleep()
				p.call("echo", map[string]string{"message": fmt.Sprintf("cycle %d", i)})
			}
			p.bye()
			if p.woken() < cycles {
				t.Errorf("%d wakes in %d cycles", p.woken(), cycles)
			}
			p.wantVersions(version, cycles)
		})
	}
}

// wantVersions looks at what the servers have received, all in all. The list of tools, which the client has read once, is
// read again from each server.
func (p *patientClient) wantVersions(version string, calls int) {
	p.t.Helper()
	servers := 1 + p.woken()
	text, err := os.ReadFile(p.got)
	if err != nil {
		p.t.Fatal(err)
	}
	counts := map[string]int{}
	handshakes := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ ProtocolVersion string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			p.t.Fatalf("a server got %q: %v", line, err)
		}
		counts[m.Method]++
		if m.Method == "initialize" {
			handshakes[line] = true
			if m.Params.ProtocolVersion != version {
				p.t.Errorf("initialize for %s", m.Params.ProtocolVersion)
			}
		}
	}
	if len(handshakes) != 1 || counts["initialize"] != servers || counts["notifications/initialized"] != servers ||
		counts["tools/list"] != servers || counts["tools/call"] != calls {
		p.t.Errorf("%d servers of %s got %v, with %d different handshakes", servers, version, counts, len(handshakes))
	}
}

// The server says at level info that it was asked for a subscription, also when a relay asks again. The client hears
// that only if it has not asked for errors alone. That the subscription is there shows when the server tells of
// updates.
func TestHibernateRealRestores(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"", "error"} {
		t.Run("level="+level, func(t *testing.T) {
			t.Parallel()
			p := startPatient(t, realDir(t), toldServer{Idle: "3s"}, "node", everythingJS)
			const uri = "demo://resource/dynamic/text/1"
			if level != "" {
				p.order(map[string]any{"level": level})
			}
			p.order(map[string]any{"subscribe": uri})
			for i := 1; i <= 3; i++ {
				p.asleep()
				first := p.call("toggle-subscriber-updates", map[string]string{})
				second := p.call("echo", map[string]string{"message": "x"})
				updated, logged := slices.Concat(first.Updated, second.Updated), slices.Concat(first.Logged, second.Logged)
				// One of the wrapper, because nobody has looked while the server slept, and one of the server, which may send more
				// later.
				if len(updated) < 2 || updated[0] != uri || updated[1] != uri {
					t.Errorf("wake %d: updates of %q, want two of %s", i, updated, uri)
				}
				if heard := strings.Contains(strings.Join(logged, "\n"), "Received Subscribe"); heard != (level == "") {
					t.Errorf("wake %d: with level %q the client was told %q", i, level, logged)
				}
			}
			p.bye()
		})
	}
}

// The official SDK 2.x, at both ends and at the client's alone, with the handshake and without. Without the handshake,
// its client has a subscription open all the time. The subscription outlives each sleep of the server, and tells the
// client to look at the list of tools again.
func TestHibernateRealModern(t *testing.T) {
	t.Parallel()
	modern := []string{"node", "modern-server.mjs"}
	for name, c := range map[string]struct {
		mode, version string
		argv          []string
	}{
		"new":        {"", "2026-07-28", modern},
		"legacy":     {"legacy", "2025-11-25", modern},
		"old server": {"", "2025-11-25", []string{"node", everythingJS}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := realDir(t)
			got := filepath.Join(dir, "got")
			p := startPatient(t, dir, toldServer{Client: "modern.mjs", Protocol: c.mode, Idle: "2s"}, recorded(got, c.argv...)...)
			if v := p.order(map[string]any{"version": true}).Text; v != c.version {
				t.Fatalf("they speak %s", v)
			}
			changed := 0
			const cycles = 4
			for i := 1; i <= cycles; i++ {
				p.asleep()
				var answer sdkAnswer
				if c.argv[1] == modern[1] {
					answer = p.call("pid", map[string]string{})
				} else {
					answer = p.call("echo", map[string]string{"message": "x"})
				}
				changed += len(answer.Updated)
			}
			p.bye()
			text, err := os.ReadFile(got)
			noError(t, err)
			listens := strings.Count(string(text), `"subscriptions/listen"`)
			if subscribed := name == "new"; subscribed && (listens != p.woken()+1 || changed == 0) || !subscribed && listens > 0 || p.woken() < cycles {
				t.Errorf("%d subscriptions, %d changes, %d wakes in %d cycles", listens, changed, p.woken(), cycles)
			}
		})
	}
}
