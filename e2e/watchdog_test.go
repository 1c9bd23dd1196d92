package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/internal/stage"
	"mcp-tether/internal/testkit"
)

// A supervisor that lives and does nothing: the anchor is its watchdog. And an anchor that does nothing.

// own puts what the gateway starts into a terminal session of its own. In the gateway's, the kernel itself would
// continue a stopped process group whose gateway ends.
var own = []string{"setsid=1"}

// state is the one letter of a process's state, "" when there is no such process.
func state(pid int) string { return stage.Describe(pid).State }

// awaitState waits until the process is in one of the states, or (with !) in none of them.
func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	not := strings.HasPrefix(want, "!")
	for deadline := time.Now().Add(testkit.Patience); ; pause(time.Millisecond) {
		if in := strings.Contains(want, state(pid)); in != not {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is in state %q, want %q", pid, state(pid), want)
		}
	}
}

// trace stops a process by ptrace until the test, or the function that it returns, lets go.
func trace(t *testing.T, pid, uid int) (release func()) {
	t.Helper()
	cmd := exec.Command(fixture, "trace", fmt.Sprint(pid))
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	release = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(release)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the tracer says %q, %v", line, err)
	}
	return release
}

// patienceWithStuck is the longest that a stuck supervisor may keep its session: the graces of these tests, and the margin.
const (
	stuckGraces = 3300 * time.Millisecond
	stuckMargin = 5 * time.Second
)
