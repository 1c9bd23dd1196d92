package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"mcp-tether/internal/testkit"
)

// threads is what npm/threads.mjs is told.
type threads struct {
	Threads int               `json:"threads"`
	Servers []threadServer    `json:"servers"`
	Env     map[string]string `json:"env"`
}

type threadServer struct {
	realServer
	Call map[string]any `json:"call"`
}

// threadServers are six servers of real packages, each lazy, and what is asked of each.
func threadServers(t *testing.T, dir string) (all []threadServer) {
	t.Helper()
	add := func(call string, arguments map[string]any, argv ...string) {
		full := append([]string{"run", "--lazy", "--log-file=" + filepath.Join(dir, "log"), "--", "node"}, argv...)
		all = append(all, threadServer{realServer{Command: tether, Args: full}, map[string]any{"name": call, "arguments": arguments}})
	}
	for i := range 2 {
		files := filepath.Join(dir, fmt.Sprint("files", i))
		if err := os.Mkdir(files, 0o700); err != nil {
			t.Fatal(err)
		}
		add("list_directory", map[string]any{"path": files}, filesystemJS, files)
		add("echo", map[string]any{"message": "hello"}, everythingJS, "stdio", fmt.Sprint(i))
	}
	add("read_graph", map[string]any{}, memoryJS)
	add("pid", map[string]any{}, "modern-server.mjs")
	return all
}

// Of a gateway with 35 threads that keep six servers each, six servers live if six are used.
func TestLazyRealThreads(t *testing.T) {
	needSDK(t)
	dir := realDir(t)
	c := threads{Servers: threadServers(t, dir), Env: realEnv(dir)}
	c.Env["PATH"], c.Env["MEMORY_FILE_PATH"] = os.Getenv("PATH"), filepath.Join(dir, "memory.json")
	for _, n := range []int{1, 35} { // The first fills the cache.
		c.Threads = n
		g, told := c.play(t, dir)
		servers, weight := 0, 0
		for _, k := range findKin(t, []int{g.cmd.Process.Pid}, dir) {
			switch {
			case k.pid == g.cmd.Process.Pid:
			case k.comm == "mcp-tether":
				weight += pss(k.pid)
			default:
				servers++
			}
		}
		t.Logf("%d threads: %s; %d servers live, and ours weigh %d MB", n, told, servers, weight>>10)
		if servers != len(c.Servers) || weight > 500<<10 {
			t.Errorf("%d threads: %d servers live, and ours weigh %d kB", n, servers, weight)
		}
		_ = g.orders.Close()
		_ = g.cmd.Wait()
		testkit.Until(t, "nothing is left", func() bool { return len(findKin(t, nil, dir)) == 0 })
		checkNoRecords(t, dir)
	}
}

func (c threads) play(t *testing.T, dir string) (*sdkClient, string) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	g := &sdkClient{t: t, dir: dir, cmd: exec.Command("node", "threads.mjs", string(config)), stderr: filepath.Join(dir, "stderr")}
	g.cmd.Dir = "npm"
	g.run()
	t.Cleanup(g.endAll)
	answer := g.hearWithin(crowdPatience)
	if answer.Event != "done" {
		t.Fatalf("the client is not done: %+v\n%s", answer, g.complaint())
	}
	return g, answer.Text
}

// pss is what a process weighs, in kB: its part of the pages that it shares.
func pss(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	m := regexp.MustCompile(`(?m)^Pss: +(\d+) kB`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}
