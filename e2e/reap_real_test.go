package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A real server with a real browser, as its users start it today: without any wrapper. Its client is killed, and the
// browser, in terminal sessions of its own, is left. The same server under another client, which lives, is not touched.
func TestReapRealBrowser(t *testing.T) {
	testkit.Proof(t)
	if !onOwnHost(t) {
		return
	}
	lost, kept := realDir(t), realDir(t)
	mine := startSDKClient(t, lost, puppeteer(t, lost))
	theirs := startSDKClient(t, kept, puppeteer(t, kept))
	config := realConfig(t, lost)
	flags := []string{"--config=" + config, "--kill", "--unwrapped"}
	if r := operator.reap(t, 0, flags...); len(r.Findings) > 0 {
		t.Errorf("under living clients: %v", r.Findings)
	}
	mine.signal(syscall.SIGKILL)
	r := operator.reap(t, 1, flags[:2]...)
	// Two, where the look came while a process between launcher and browser was just ending.
	if c := r.classes(); c != "severed" && c != "severed severed" {
		t.Errorf("found %v, want one that is severed", r.Findings)
	}
	r = operator.reap(t, 0, flags...)
	if left := stage.Outlasting(testkit.Patience, mine.family...); len(left) > 0 {
		t.Errorf("left behind: %v\nfound: %v", left, r.Findings)
	}
	if left := findKin(lost); len(left) > 0 {
		t.Errorf("born late and left behind: %v", left)
	}
	if len(r.Findings) == 1 {
		t.Logf("%d members ended, %d processes gone", len(r.Findings[0].Members), len(mine.family))
	}
	if left := len(mine.family); left < 10 {
		t.Errorf("the family had %d members only", left)
	}
	for _, p := range theirs.family {
		if !p.Lives() {
			t.Errorf("%v of the living client is gone", p)
		}
	}
	theirs.close()
}

// realConfig names the server as a gateway's configuration does.
func realConfig(t *testing.T, dir string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"puppeteer": map[string]any{"command": "npx", "args": []string{"--no-install", "mcp-server-puppeteer"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
