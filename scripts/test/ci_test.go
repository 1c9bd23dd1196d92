package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/internal/testkit"
)

// A step of .ci/run fails when its tests do. A function that is called before "||" does not stop at a command that fails.
func TestCIStepsFail(t *testing.T) {
	_, err := exec.LookPath("bash")
	testkit.Need(t, err == nil, "bash")
	text, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	_, step, found := strings.Cut(string(text), "\ntest_in_namespaces() {\n")
	step, _, ends := strings.Cut(step, "\n}\n")
	if !found || !ends {
		t.Fatal("there is no such step")
	}
	for _, code := range []int{0, 3} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "unshare"), fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", code), 0o755); err != nil {
			t.Fatal(err)
		}
		// The cgroup is a directory of the test's.
		script := "set -euo pipefail\nrc=0\nawk() { echo \"$dir\"; }\nsed() { echo; }\nrmdir() { rm -r \"$1\"; }\n" +
			"step() {\n" + step + "\n}\nstep || rc=$?\nexit $rc\n"
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "dir="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("the tests ended with %d, and the step with %d\n%s", code, got, out)
		}
	}
}
