package stage

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Gateway is a fixture process that starts servers and holds their stdio, so that it can be ended in any way. It leads a
// process group of its own.
type Gateway struct {
	T        T
	Programs Programs
	PID      int
	// UID is the user, 0 for the caller's own.
	UID int
	// Dir is what the gateway's sessions have below them.
	Dir     string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	answers *bufio.Reader
	count   int
}

// World says in what the gateway lives, and all that it starts.
type World struct {
	// UID is another user, if it is not 0. Only root can have it.
	UID int
	// Steps take something away, see the verb world of the fixture. The user changes after them.
	Steps []string
	// Files are given to the fixture as descriptors 3 and up.
	Files []*os.File
}

// Start starts a gateway. It is killed when the play is over.
func Start(t T, p Programs, w World) *Gateway {
	t.Helper()
	g := &Gateway{T: t, Programs: p, UID: w.UID, Dir: t.TempDir()}
	argv := []string{p.Fixture, "gateway"}
	if steps := w.Steps; len(steps) > 0 {
		if w.UID != 0 {
			steps = append(slices.Clone(steps), "uid="+strconv.Itoa(w.UID))
		}
		argv = append(append([]string{p.Fixture, "world"}, steps...), append([]string{"--"}, argv...)...)
	}
	g.cmd = exec.Command(argv[0], argv[1:]...)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.cmd.ExtraFiles = w.Files
	if w.UID != 0 {
		g.openDir()
	}
	if w.UID != 0 && len(w.Steps) == 0 {
		g.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}
	}
	g.launch()
	return g
}

// openDir lets other users in.
func (g *Gateway) openDir() {
	g.T.Helper()
	for _, d := range []string{g.Dir, filepath.Dir(g.Dir)} {
		g.ok(os.Chmod(d, 0o755)) //nolint:gosec // others are to read it
	}
}

func (g *Gateway) ok(err error) {
	g.T.Helper()
	if err != nil {
		g.T.Fatalf("gateway: %v", err)
	}
}

// launch starts the gateway's command.
func (g *Gateway) launch() {
	g.T.Helper()
	g.cmd.Stderr = os.Stderr
	in, err := g.cmd.StdinPipe()
	g.ok(err)
	out, err := g.cmd.StdoutPipe()
	g.ok(err)
	g.in, g.out = in, out.(*os.File)
	g.answers = bufio.NewReader(out)
	g.ok(g.cmd.Start())
	g.PID = g.cmd.Process.Pid
	g.T.Cleanup(g.Kill)
}

// Call sends one request, see e2e/fixture/gateway.go, and returns the answer's text.
func (g *Gateway) Call(req ...string) string {
	g.T.Helper()
	ok, text := g.Try(req...)
	if !ok {
		g.T.Fatalf("gateway: %s: %s", strings.Join(req, " "), text)
	}
	return text
}

// Try is Call for requests that may fail.
func (g *Gateway) Try(req ...string) (ok bool, text string) {
	g.T.Helper()
	g.Send(req...)
	return g.Receive()
}

// Send is the first half of a call, for one who must do something before the second.
func (g *Gateway) Send(req ...string) {
	g.T.Helper()
	quoted := make([]string, len(req))
	for i, f := range req {
		quoted[i] = strconv.Quote(f)
	}
	if _, err := io.WriteString(g.in, strings.Join(quoted, "\t")+"\n"); err != nil {
		g.T.Fatalf("gateway: %s: %v", req[0], err)
	}
}

// Receive is the second half of a call.
func (g *Gateway) Receive() (ok bool, text string) {
	g.T.Helper()
	ok, text, err := g.ReceiveWithin(Patience)
	if err != nil {
		g.T.Fatalf("no answer from the gateway: %v", err)
	}
	return ok, text
}

// ReceiveWithin is Receive where the answer may not come. Then the gateway must be asked no more.
func (g *Gateway) ReceiveWithin(limit time.Duration) (ok bool, text string, err error) {
	_ = g.out.SetReadDeadline(time.Now().Add(limit))
	line, err := g.answers.ReadString('\n')
	if err != nil {
		return false, "", err
	}
	status, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
	if text != "" {
		text, err = strconv.Unquote(strings.Replace(text, "\"\t\"", " ", 1)) // "exit", "0" reads as one
	}
	return status == `"ok"`, text, err
}

// Kill ends the gateway as the OOM killer does, and reaps it.
func (g *Gateway) Kill() {
	if g.cmd.ProcessState != nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// Signal sends a signal to the gateway alone.
func (g *Gateway) Signal(sig syscall.Signal) { _ = g.cmd.Process.Signal(sig) }

// SignalGroup sends a signal to the gateway and what is in its process group.
func (g *Gateway) SignalGroup(sig syscall.Signal) { _ = syscall.Kill(-g.PID, sig) }

// Exit has the gateway exit without closing anything.
func (g *Gateway) Exit() {
	g.T.Helper()
	g.Send("exit", "0")
	_ = g.cmd.Wait()
}
