package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// gateway is a fixture process that starts servers and holds their stdio, so that the test can end it in any way.
// It leads a process group of its own.
type gateway struct {
	t       *testing.T
	pid     int
	uid     int
	dir     string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	answers *bufio.Reader
	count   int
}

func startGateway(t *testing.T) *gateway {
	t.Helper()
	return startGatewayAs(t, 0)
}

// startGatewayAs starts the gateway as another user, if uid is not 0.
func startGatewayAs(t *testing.T, uid int) *gateway {
	t.Helper()
	g := &gateway{t: t, uid: uid, dir: t.TempDir(), cmd: exec.Command(fixture, "gateway")}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if uid != 0 {
		testkit.Need(t, os.Geteuid() == 0, "root")
		g.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
		g.openDir()
	}
	g.launch()
	return g
}

// openDir lets other users in.
func (g *gateway) openDir() {
	g.t.Helper()
	for _, d := range []string{g.dir, filepath.Dir(g.dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			g.t.Fatal(err)
		}
	}
}

// launch starts the gateway's command.
func (g *gateway) launch() {
	t := g.t
	t.Helper()
	g.cmd.Stderr = os.Stderr
	in, err := g.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	g.in, g.out = in, out.(*os.File)
	g.answers = bufio.NewReader(out)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.pid = g.cmd.Process.Pid
	t.Cleanup(func() { g.kill() })
}

// call sends one request, see fixture/gateway.go, and returns the answer's text.
func (g *gateway) call(req ...string) string {
	g.t.Helper()
	ok, text := g.try(req...)
	if !ok {
		g.t.Fatalf("gateway: %s: %s", strings.Join(req, " "), text)
	}
	return text
}

// try is call for requests that may fail.
func (g *gateway) try(req ...string) (ok bool, text string) {
	g.t.Helper()
	g.send(req...)
	return g.receive()
}

// send and receive are the halves of a call, for a test that must do something between them.
func (g *gateway) send(req ...string) {
	g.t.Helper()
	quoted := make([]string, len(req))
	for i, f := range req {
		quoted[i] = strconv.Quote(f)
	}
	if _, err := io.WriteString(g.in, strings.Join(quoted, "\t")+"\n"); err != nil {
		g.t.Fatalf("gateway: %s: %v", req[0], err)
	}
}

func (g *gateway) receive() (ok bool, text string) {
	g.t.Helper()
	_ = g.out.SetReadDeadline(time.Now().Add(testkit.Patience))
	line, err := g.answers.ReadString('\n')
	if err != nil {
		g.t.Fatalf("no answer from the gateway: %v", err)
	}
	status, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
	if text != "" {
		text, err = strconv.Unquote(strings.Replace(text, "\"\t\"", " ", 1)) // "exit", "0" reads as one
		if err != nil {
			g.t.Fatal(err)
		}
	}
	return status == `"ok"`, text
}

// kill ends the gateway as the OOM killer does, and reaps it.
func (g *gateway) kill() {
	if g.cmd.ProcessState != nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// killGroup ends the gateway and what is in its process group.
func (g *gateway) killGroup(sig syscall.Signal) {
	_ = syscall.Kill(-g.pid, sig)
}

// exit has the gateway exit without closing anything.
func (g *gateway) exit() {
	g.t.Helper()
	g.send("exit", "0")
	_ = g.cmd.Wait()
}
