package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Whatever is met, a pass ends in time and says that it did.
func TestReapTimeout(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	l, err := net.Listen("unix", "/tmp/hangs")
	ok(t, err)
	defer l.Close()
	began := time.Now()
	slow := caller{env: []string{"DOCKER_HOST=unix:///tmp/hangs"}}
	// An answer that never comes is waited for no longer than that; a busy machine adds to it. Without the limit the pass would
	// take as long as the engine likes.
	if o := slow.run(t, "reap", "--timeout=300ms"); o.code != 2 || !strings.Contains(o.stderr, "gave up after 300ms") || time.Since(began) > testkit.Patience/2 {
		t.Errorf("exit code %d after %v: %s", o.code, time.Since(began), o.stderr)
	}
	if o := operator.run(t, "reap", "--timeout=20s"); o.code != 0 { // the control
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
}

// A client of an engine that lost its gateway is ended. Its container may live on, which the report and the exit code
// say. The same command under another name is the control.
func TestReapSeveredClient(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	sh, err := os.ReadFile("/bin/sh")
	ok(t, err)
	for name, code := range map[string]int{"docker": 1, "other": 0} {
		program := filepath.Join(t.TempDir(), name)
		testkit.WriteProgram(t, program, sh)
		pid := orphan(t, program, "-c", "echo up; while :; do sleep 1; done", "run", "-i", "mcp/fetch")
		outgrow(t)
		r := operator.reap(t, code, "--kill", "--unwrapped", "--match=mcp/fetch")
		if lives := unix.Kill(pid, 0) == nil && stage.Describe(pid).State != "Z"; lives || r.classes() != "severed" {
			t.Errorf("%s: lives: %v, found %v", name, lives, r.Findings)
		}
		if told := strings.Contains(r.stdout, "the container may be there"); told != (code == 1) {
			t.Errorf("%s: %s", name, r.stdout)
		}
	}
}
