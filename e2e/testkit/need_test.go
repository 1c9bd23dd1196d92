package testkit

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What is declared and missing is a failure, or is noted.
func TestLacks(t *testing.T) {
	const lacks = "MCP_TETHER_TESTKIT_LACKS"
	if os.Getenv(lacks) != "" {
		Lacks(t, Tools, true, "something")
	}
	for has, want := range map[string]bool{"root tools": false, "root": true} {
		noted := t.TempDir() + "/skips"
		if err := os.WriteFile(noted, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestLacks$")
		cmd.Env = append(os.Environ(), lacks+"=1", Has+"="+has, SkipsVar+"="+noted)
		out, err := cmd.CombinedOutput()
		why, _ := os.ReadFile(noted)
		if (err == nil) != want || strings.Contains(string(out), "needs tools: something") == want || (string(why) == "this needs tools\n") != want {
			t.Errorf("%q: %v\n%s%s", has, err, out, why)
		}
	}
}
