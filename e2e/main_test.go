// Package e2e runs the built binary in front of real process trees. It has one test double, the fixture: a gateway or a
// server, as badly behaved as a test asks for. A test waits for a lifeline, for a lock that processes without fds hold
// in its place, or for an answer of the gateway. The lifeline is a FIFO that every descendant holds open for writing.
// Its end of file means that all are dead. A test lets time pass only where the moment is what is tested (pause), or
// where something must not happen (quiet).
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

var tether, fixture string // the two binaries, absolute

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	defer stopEngines()
	// Under nohup hang-ups are ignored, and would be by all that is started here. What is caught is not inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	leaveTerminal()
	testkit.AtOnce()
	// Lines of shell in these tests do not quote every path.
	if strings.ContainsAny(os.TempDir(), " \t") {
		_ = os.Setenv("TMPDIR", "/tmp")
	}
	// A host of a test's own has directories as any machine has them.
	if os.Getenv(inHost) != "" {
		syscall.Umask(0o022)
	}
	_ = syscall.Chmod("/proc/self/exe", 0o755) // whatever the umask: other users run it as well
	remove, err := build()
	defer remove()
	// What ends here is in no history of the user's own.
	state, serr := os.MkdirTemp("", "mcp-tether-state-")
	defer os.RemoveAll(state)
	err = errors.Join(err, serr, os.Setenv("XDG_STATE_HOME", state))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// leaveTerminal gives up the controlling terminal, if there is one: what a gateway starts has none, and tests make their own.
func leaveTerminal() {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0); err == nil {
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCNOTTY, 0)
		_ = tty.Close()
	}
}

// build makes the fixture, and the binary unless MCP_TETHER_BIN names one. On a host of its own a test has both from
// outside (runOnOwnHost): to link them a hundred times would take minutes.
func build() (remove func(), err error) {
	tether = os.Getenv("MCP_TETHER_BIN")
	if fixture = os.Getenv(fixtureOutside); fixture != "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "mcp-tether-e2e-")
	if err != nil {
		return func() {}, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	p, err := stage.Build("..", dir, tether)
	tether, fixture = p.Tether, p.Fixture
	return remove, err
}

// programs are the two binaries, as the stage has them.
func programs() stage.Programs { return stage.Programs{Tether: tether, Fixture: fixture} }
