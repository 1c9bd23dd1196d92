package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// A real server that many clients of the official SDK share. What is asked of it is in npm/crowd.mjs.

// crowd is what that is told.
type crowd struct {
	realServer
	Clients int    `json:"clients"`
	Calls   int    `json:"calls"`
	dir     string // of the whole test
}

// crowdPatience is for all calls of a crowd, which take half a minute on a busy machine.
const crowdPatience = 4 * time.Minute

// newCrowd prepares a crowd of clients of server-everything, which writes a line for each time that it is started.
func newCrowd(t *testing.T, clients, calls int) *crowd {
	t.Helper()
	needSDK(t)
	dir := realDir(t)
	c := &crowd{Clients: clients, Calls: calls, dir: dir}
	c.Env = realEnv(dir)
	c.Env["PATH"] = os.Getenv("PATH")
	server, err := filepath.Abs("npm/" + everythingJS)
	noError(t, err)
	c.Command = "sh"
	c.Args = []string{"-c", `echo >>"$0"; exec "$@"`, filepath.Join(dir, "starts"), "node", server}
	return c
}

func needSDK(t *testing.T) {
	t.Helper()
	testkit.Long(t)
	_, err := exec.LookPath("node")
	testkit.Lacks(t, testkit.NPM, err != nil, "node")
	_, err = os.Stat("npm/node_modules/@modelcontextprotocol/sdk")
	testkit.Lacks(t, testkit.NPM, err != nil, "npm packages (npm ci in e2e/npm)")
}

// share puts the server behind mcp-tether.
func (c *crowd) share(flags ...string) {
	log := "--log-file=" + filepath.Join(c.dir, "log")
	argv := slices.Concat([]string{"run", "--share", "--share-linger=1h", log}, flags, []string{"--", c.Command}, c.Args)
	c.Command, c.Args = tether, argv
}

// starts counts the servers that were started.
func (c *crowd) starts() int {
	b, _ := os.ReadFile(filepath.Join(c.dir, "starts"))
	return bytes.Count(b, []byte("\n"))
}

// play starts the gateway and returns when its clients have made all their calls.
func (c *crowd) play(t *testing.T) (*sdkClient, sdkAnswer) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	g := &sdkClient{t: t, dir: c.dir, cmd: exec.Command("node", "crowd.mjs", string(config)), stderr: filepath.Join(c.dir, "stderr")}
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
	testkit.Until(t, "no process is left", func() bool { return len(findKin(c.dir)) == 0 })
	testkit.Until(t, "no file is left", func() bool {
		files, _ := filepath.Glob(filepath.Join(c.dir, "mcp-tether", "*"))
		return !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) != "share.key" })
	})
}

// Many clients make their calls at once, and every answer reaches its caller, and only its caller. The clients use tools, prompts
// and resources, progress, cancelled calls, subscriptions, log levels and sampling, which the server is refused.
func TestShareCrowd(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 20, 100)
	c.share()
	gateway, answer := c.play(t)
	for _, complaint := range answer.Complaints {
		t.Error(complaint)
	}
	if n := answer.Counts; n["answers"] < c.Clients*c.Calls*9/10 || n["refused"] == 0 || n["elicited"] < 8 || n["progress"] == 0 || n["updated"] < 2*c.Clients {
		t.Errorf("the server told and asked too little: %v", n)
	}
	if n := c.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	gateway.signal(9)
	c.wantGone(t)
}

// The control: a server that gives one client another one's answer is noticed.
func TestShareCrowdMixedUp(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 3, 28)
	c.Args = append([]string{"-c", `"$@" | sed -u 's/<2:/<3:/g'`, "sh", c.Command}, c.Args...)
	c.share()
	gateway, answer := c.play(t)
	if !slices.ContainsFunc(answer.Complaints, func(s string) bool { return strings.HasPrefix(s, "client 2: want <2:") }) {
		t.Errorf("nobody noticed: %v", answer.Complaints)
	}
	gateway.close()
	c.wantGone(t)
}
