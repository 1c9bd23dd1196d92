package testkit

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// inner is set in a run of this package's tests that one of them has started.
const inner = "MCP_TETHER_TESTKIT_INNER"

func TestMain(m *testing.M) { os.Exit(Run(m)) }

var (
	_ = Role("used", func() {})
	_ = os.Getenv(inner) != "idle" || Role("idle", func() {})
)

func TestRoleIsPlayed(t *testing.T) {
	if err := Command(t, "used").Run(); err != nil {
		t.Error(err)
	}
}

// For the inner run: the environment may say that something is missing, and the test is skipped.
func TestThatMayNeedSomething(t *testing.T) {
	Lacks(t, Tools, os.Getenv("MCP_TETHER_TESTKIT_LACKS") != "", "something")
}

// A role that no test has used fails the package, but not when some of the tests were not asked for or were skipped.
func TestUnusedRoleFails(t *testing.T) {
	if os.Getenv(inner) != "" {
		return
	}
	for _, c := range []struct {
		name, env, lacks, has string
		args                  []string
		ok                    bool
	}{
		{name: "all used", env: "all", ok: true},
		{name: "one idle", env: "idle"},
		{name: "one idle, some tests", env: "idle", args: []string{"-test.run=Role"}, ok: true},
		{name: "one idle, one skipped", env: "idle", lacks: "1", ok: true},
		{name: "one idle, one failed", env: "idle", lacks: "1", has: "tools"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(self(t), c.args...)
			cmd.Env = append(os.Environ(), inner+"="+c.env, "MCP_TETHER_TESTKIT_LACKS="+c.lacks, Has+"="+c.has)
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || !c.ok && !strings.Contains(string(out), "no test has used: idle") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// What is declared and missing is a failure.
func TestDeclaredAndMissingFails(t *testing.T) {
	cmd := exec.Command(self(t), "-test.run=^TestThatMayNeedSomething$")
	cmd.Env = append(os.Environ(), inner+"=all", "MCP_TETHER_TESTKIT_LACKS=1", Has+"=root tools")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "needs tools: something") {
		t.Errorf("%v\n%s", err, out)
	}
}
