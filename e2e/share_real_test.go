//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"mcp-tether/internal/testkit"
)

// Many of the official SDK's clients talk to one real server at once: every answer reaches its caller, and the server is gone
// with the gateway.
func TestShareRealServers(t *testing.T) {
	testkit.Long(t)
	_, err := exec.LookPath("node")
	testkit.Need(t, err == nil, "node")
	for _, c := range []struct {
		kind, script   string
		clients, calls int
	}{
		{"everything", everythingJS, 50, 200}, {"filesystem", filesystemJS, 20, 50}, {"memory", memoryJS, 20, 30},
	} {
		t.Run(c.kind, func(t *testing.T) {
			script, err := filepath.Abs(filepath.Join("npm", c.script))
			if err == nil {
				_, err = os.Stat(script)
			}
			testkit.Need(t, err == nil, "npm packages (npm ci in e2e/npm)")
			s := share(t)
			files := filepath.Join(s.dir, "files")
			if err := os.Mkdir(files, 0o700); err != nil {
				t.Fatal(err)
			}
			s.command = []string{"node", script}
			env := realEnv(s.dir)
			env["XDG_RUNTIME_DIR"] = s.runtime
			switch c.kind {
			case "everything":
				s.command = append(s.command, "stdio")
			case "filesystem":
				s.command = append(s.command, files)
			case "memory":
				env["MEMORY_FILE_PATH"] = filepath.Join(files, "memory.json")
			}
			order, err := json.Marshal(map[string]any{
				"command": tether, "args": slices.Concat([]string{"run"}, s.flags, []string{"--"}, s.command), "env": env,
				"kind": c.kind, "clients": c.clients, "calls": c.calls, "dir": files,
			})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("node", "share.mjs", string(order))
			cmd.Dir, cmd.Stderr = "npm", os.Stderr
			out, err := cmd.Output()
			var got struct {
				Made, Progress, Count int
				Wrong                 []string
			}
			if err != nil || json.Unmarshal(out, &got) != nil {
				t.Fatalf("the clients said %q, %v", out, err)
			}
			if got.Made != c.clients*c.calls || got.Count > 0 {
				t.Errorf("%d calls, %d went wrong: %q", got.Made, got.Count, got.Wrong)
			}
			t.Logf("%d calls, %d told of progress", got.Made, got.Progress)
			s.wantGone()
		})
	}
}
