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
	step := ciFunction(t, "test_in_namespaces")
	for _, code := range []int{0, 3} {
		dir := t.TempDir()
		testkit.WriteProgram(t, filepath.Join(dir, "unshare"), fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", code))
		// The cgroup is a directory of the test's.
		script := "set -euo pipefail\nrc=0\nawk() { echo \"$dir\"; }\nsed() { echo; }\nrmdir() { rm -r \"$1\"; }\n" +
			step + "test_in_namespaces || rc=$?\nexit $rc\n"
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "dir="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("the tests ended with %d, and the step with %d\n%s", code, got, out)
		}
	}
}

// Packages that cannot be installed leave nothing behind that keeps services from being started.
func TestCIRemovesItsPolicy(t *testing.T) {
	functions := ciFunction(t, "clean_up") + ciFunction(t, "install_packages")
	for _, own := range []bool{true, false} {
		policy := filepath.Join(t.TempDir(), "policy")
		if !own {
			if err := os.WriteFile(policy, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		script := "set -euo pipefail\nwanted=(no-such-command:nothing)\nuser='' leaf='' policy=''\nscratch=$(mktemp -d)\ntrap clean_up EXIT\nstep() { :; }\n" +
			"quietly() { [[ $3 == update || ! -e $expected ]]; }\n" + strings.ReplaceAll(functions, "/usr/sbin/policy-rc.d", policy) + "install_packages\n"
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "expected="+policy)
		out, err := cmd.CombinedOutput()
		if _, kept := os.Stat(policy); err == nil || (kept != nil) != own {
			t.Errorf("made by it: %v, afterwards: %v, %v\n%s", own, kept, err, out)
		}
	}
}

// A run that fails early removes nothing but what it has made, whatever is in the environment. What cannot be removed keeps
// nothing else.
func TestCICleansUpItsOwn(t *testing.T) {
	functions := ciFunction(t, "remove_user")
	text, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), "\nstep() {")
	if !found {
		t.Fatal("the run begins otherwise")
	}
	for _, made := range []string{"", "user=mcp-tether-no-such-user\n"} {
		dir := t.TempDir()
		other := filepath.Join(dir, "other")
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		script := head + "\n" + functions + "userdel() { echo \"userdel $1\"; return 1; }\n" + made + "exit 3\n"
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "user=of-the-environment", "leaf="+dir, "policy="+other)
		out, _ := cmd.CombinedOutput()
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 || strings.Contains(string(out), "of-the-environment") || cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("made %q: left %v, %v, exit code %d\n%s", made, left, err, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// ciFunction is the text of a function of .ci/run.
func ciFunction(t *testing.T, name string) string {
	t.Helper()
	_, err := exec.LookPath("bash")
	testkit.Need(t, err == nil, "bash")
	text, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "\n"+name+"() {\n")
	body, _, ends := strings.Cut(body, "\n}\n")
	if !found || !ends {
		t.Fatalf("there is no function %s", name)
	}
	return name + "() {\n" + body + "\n}\n"
}

// The tests of the engines of today know which they meet: of docker 29 they demand HTTP/2, and on hosts of their own they start
// the same kind.
func TestCINamesItsEngines(t *testing.T) {
	step := ciFunction(t, "test_today")
	for today, want := range map[string]string{
		"[docker29]=unix:///29 [podman56]=unix:///56": "docker29 unix:///29 unix:///56",
		"[docker29]=unix:///29":                       "docker29 unix:///29 unix:///p",
		"[podman56]=unix:///56":                       " unix:///d unix:///56",
	} {
		script := "set -euo pipefail\nMCP_TETHER_TEST_DOCKER=unix:///d MCP_TETHER_TEST_PODMAN=unix:///p\ndeclare -A today=(" + today + ")\n" +
			"make() { echo \"$MCP_TETHER_TEST_ENGINE_KIND $MCP_TETHER_TEST_ENGINE $MCP_TETHER_TEST_PODMAN\"; }\n" + step + "test_today\n"
		out, err := exec.Command("bash", "-c", script).CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != want {
			t.Errorf("today %s: %q instead of %q, %v", today, got, want, err)
		}
	}
}
