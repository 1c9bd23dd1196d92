package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// Real servers that many clients of the official SDKs share. What is asked of them is in npm/crowd.mjs and gosdk/main.go.

// crowd is what those two are told.
type crowd struct {
	realServer
	Kind    string `json:"kind"`
	Clients int    `json:"clients"`
	Calls   int    `json:"calls"`
	Dir     string `json:"dir"`
}

// crowdPatience is for all calls of a crowd, which take half a minute on a busy machine.
const crowdPatience = 4 * time.Minute

// crowdServers are the servers, with the number of calls of each of 50 clients. The file servers write to a disk.
var crowdServers = []struct {
	kind  string
	calls int
}{{"everything", 200}, {"filesystem", 20}, {"memory", 40}}

// newCrowd prepares a crowd of clients of one kind of server, which writes a line for each time that it is started.
func newCrowd(t *testing.T, kind string, clients, calls int) *crowd {
	t.Helper()
	needSDK(t)
	dir := realDir(t)
	c := &crowd{Kind: kind, Clients: clients, Calls: calls, Dir: filepath.Join(dir, "files")}
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.Env = realEnv(dir)
	c.Env["MEMORY_FILE_PATH"] = filepath.Join(c.Dir, "memory.json")
	c.Env["PATH"] = os.Getenv("PATH")
	npm, err := filepath.Abs("npm")
	if err != nil {
		t.Fatal(err)
	}
	c.Command = "sh"
	c.Args = []string{"-c", `echo >>"$0"; exec "$@"`, filepath.Join(dir, "starts"), "node", filepath.Join(npm, "node_modules/@modelcontextprotocol/server-"+kind+"/dist/index.js")}
	if kind == "filesystem" {
		c.Args = append(c.Args, c.Dir)
	}
	return c
}

func needSDK(t *testing.T) {
	t.Helper()
	testkit.Long(t)
	_, err := exec.LookPath("node")
	testkit.Need(t, err == nil, "node")
	_, err = os.Stat("npm/node_modules/@modelcontextprotocol/sdk")
	testkit.Need(t, err == nil, "npm packages (npm ci in e2e/npm)")
}

// dir is the directory of the whole test.
func (c *crowd) dir() string { return filepath.Dir(c.Dir) }

// share puts the server behind mcp-tether.
func (c *crowd) share(flags ...string) {
	log := "--log-file=" + filepath.Join(c.dir(), "log")
	argv := slices.Concat([]string{"run", "--share", "--share-linger=1h", log}, flags, []string{"--", c.Command}, c.Args)
	c.Command, c.Args = tether, argv
}

// starts counts the servers that were started.
func (c *crowd) starts() int {
	b, _ := os.ReadFile(filepath.Join(c.dir(), "starts"))
	return bytes.Count(b, []byte("\n"))
}

// play starts the gateway and returns when its clients have made all their calls.
func (c *crowd) play(t *testing.T, gateway ...string) (*sdkClient, sdkAnswer) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	g := &sdkClient{t: t, dir: c.dir(), cmd: exec.Command(gateway[0], append(gateway[1:], string(config))...), stderr: filepath.Join(c.dir(), "stderr")}
	g.cmd.Dir = "npm"
	g.run()
	t.Cleanup(g.endAll)
	answer := g.hearWithin(crowdPatience)
	if answer.Event != "done" {
		t.Fatalf("the clients are not done: %+v\n%s", answer, g.complaint())
	}
	t.Logf("%v", answer.Counts)
	return g, answer
}

// wantGone expects that nothing is left of the server once its gateway is gone, however it went.
func (c *crowd) wantGone(t *testing.T) {
	t.Helper()
	testkit.Until(t, "no process is left", func() bool { return len(findKin(t, nil, c.dir())) == 0 })
	testkit.Until(t, "no file is left", func() bool {
		files, _ := filepath.Glob(filepath.Join(c.dir(), "mcp-tether", "*"))
		return !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) != "share.key" })
	})
}

// Fifty clients make their calls at once, and every answer reaches its caller, and only its caller. The clients use
// tools, prompts and resources, progress, cancelled calls, subscriptions, log levels and sampling, and get results of
// more than 10 MiB.
func TestShareCrowd(t *testing.T) {
	for _, s := range crowdServers {
		t.Run(s.kind, func(t *testing.T) {
			c := newCrowd(t, s.kind, 50, s.calls)
			c.share("--share-asks=in-call")
			gateway, answer := c.play(t, "node", "crowd.mjs")
			for _, complaint := range answer.Complaints {
				t.Error(complaint)
			}
			if n := answer.Counts["answers"]; n < c.Clients*c.Calls*9/10 {
				t.Errorf("only %d answers", n)
			}
			if n := answer.Counts; s.kind == "everything" && (n["sampled"] < c.Clients || n["elicited"] < 8 || n["progress"] == 0 || n["updated"] < 2*c.Clients) {
				t.Errorf("the server told and asked too little: %v", n)
			}
			if n := c.starts(); n != 1 {
				t.Errorf("%d servers were started", n)
			}
			gateway.close()
			c.wantGone(t)
		})
	}
}

// The same with the official Go SDK, which asks first whether the server knows the protocol without a handshake.
func TestShareCrowdOfGo(t *testing.T) {
	c := newCrowd(t, "everything", 50, 200)
	program := filepath.Join(c.dir(), "gosdk")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	build.Dir = "gosdk"
	if out, err := build.CombinedOutput(); err != nil {
		t.Logf("%v: %s", err, out)
		testkit.Need(t, false, "the Go SDK (go build in e2e/gosdk)")
	}
	c.share()
	gateway, answer := c.play(t, program)
	for _, complaint := range answer.Complaints {
		t.Error(complaint)
	}
	if n := answer.Counts["answers"]; n != c.Clients*c.Calls {
		t.Errorf("%d answers", n)
	}
	if n := c.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	gateway.signal(9)
	c.wantGone(t)
}

// The official SDK 2.x speaks 2026-07-28, without a handshake. Each client has a subscription of its own, which ends with it.
// One client that uses a handshake gets a server of its own.
func TestShareCrowdWithoutHandshake(t *testing.T) {
	for kind, servers := range map[string]int{"modern": 1, "mixed": 2} {
		t.Run(kind, func(t *testing.T) {
			c := newCrowd(t, kind, 20, 50)
			_, err := os.Stat("npm/node_modules/@modelcontextprotocol/client")
			testkit.Need(t, err == nil, "npm packages (npm ci in e2e/npm)")
			c.Args[len(c.Args)-1] = "modern-server.mjs"
			c.share()
			gateway, answer := c.play(t, "node", "modern-crowd.mjs")
			for _, complaint := range answer.Complaints {
				t.Error(complaint)
			}
			if n := answer.Counts; n["answers"] != c.Clients*c.Calls || n["modern"] != c.Clients-(servers-1) {
				t.Errorf("%v", n)
			}
			if n := c.starts(); n != servers {
				t.Errorf("%d servers were started, want %d", n, servers)
			}
			gateway.close()
			c.wantGone(t)
		})
	}
}

// The controls: without --share each client has a server of its own, and a server that gives one client another one's answer
// is noticed.
func TestShareCrowdControls(t *testing.T) {
	t.Run("without", func(t *testing.T) {
		c := newCrowd(t, "memory", 3, 14)
		c.share("--share=false")
		gateway, answer := c.play(t, "node", "crowd.mjs")
		if n := c.starts(); n != 3 || len(answer.Complaints) > 0 {
			t.Errorf("%d servers were started; %v", n, answer.Complaints)
		}
		gateway.close()
		c.wantGone(t)
	})
	t.Run("mixed up", func(t *testing.T) {
		c := newCrowd(t, "everything", 3, 28)
		c.Args = append([]string{"-c", `"$@" | sed -u 's/<2:/<3:/g'`, "sh", c.Command}, c.Args...)
		c.share()
		gateway, answer := c.play(t, "node", "crowd.mjs")
		if !slices.ContainsFunc(answer.Complaints, func(s string) bool { return strings.HasPrefix(s, "client 2: want <2:") }) {
			t.Errorf("nobody noticed: %v", answer.Complaints)
		}
		gateway.close()
		c.wantGone(t)
	})
}

// Clients use ids and tokens that are equal, or nearly so, at the same time.
func TestShareIDs(t *testing.T) {
	t.Parallel()
	ids := []string{"1", `"1"`, "1.5", "-1", "9007199254740993", "123456789012345678901234567890", `"a\u00e9"`, `""`, "0", "true"}
	s := share(t)
	var clients []*sharer
	for range 10 {
		clients = append(clients, s.client())
	}
	var wg sync.WaitGroup
	for n, c := range clients {
		wg.Go(func() {
			for i, id := range ids {
				c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"echo","arguments":{"text":"<%d:%d>"},"_meta":{"progressToken":%s}}}`, id, n, i, id))
			}
			for range ids {
				line := c.line()
				var answer struct {
					ID     json.RawMessage
					Result json.RawMessage
				}
				_ = json.Unmarshal([]byte(line), &answer)
				i := slices.Index(ids, string(answer.ID))
				if !strings.Contains(string(answer.Result), fmt.Sprintf("<%d:%d>", n, i)) {
					t.Errorf("client %d: %s", n, line)
				}
			}
		})
	}
	wg.Wait()
	if n := s.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	for _, c := range clients {
		c.close()
	}
	kill(t, s.host(), 15)
	s.wantGone()
}
