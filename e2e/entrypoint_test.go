package e2e

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// The Dockerfile of scripts/packaging/, built and run as its page says: an image with nothing in it but the binary and a server.

// tetheredImage builds the Dockerfile. The image is removed with the test.
func (e *engine) tetheredImage(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	for from, to := range map[string]string{tether: "mcp-tether", fixture: "server", "../scripts/packaging/examples/Dockerfile": "Dockerfile"} {
		b, err := os.ReadFile(from)
		ok(t, err)
		testkit.WriteProgram(t, filepath.Join(dir, to), b)
	}
	cmd := e.command("build", "-t", name, dir)
	cmd.Env = append(cmd.Env, "DOCKER_BUILDKIT=0")
	if o := finish(t, cmd); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	t.Cleanup(func() {
		if code := e.do(t, http.MethodDelete, "/v1.40/images/"+name+"?force=1", nil, nil); code != http.StatusOK {
			t.Errorf("remove the image: %d", code)
		}
	})
}

// inBox is a container of the image, with its client.
type inBox struct {
	t      *testing.T
	e      *engine
	mark   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// runImage starts a container. flags are docker's.
func (e *engine) runImage(t *testing.T, image string, flags []string, command ...string) *inBox {
	t.Helper()
	b := &inBox{t: t, e: e, mark: e.mark(t)}
	args := slices.Concat([]string{"run", "-i", "--rm", "--network", "none", "--label", markLabel + "=" + b.mark, "-e", "E2E_BOX=" + b.mark}, flags, []string{image}, command)
	b.cmd = e.command(args...)
	var err error
	b.in, err = b.cmd.StdinPipe()
	ok(t, err)
	out, w, err := os.Pipe()
	ok(t, err)
	b.cmd.Stdout, b.cmd.Stderr, b.out = w, &b.stderr, bufio.NewReader(out)
	ok(t, b.cmd.Start())
	ok(t, w.Close())
	t.Cleanup(func() { _ = b.cmd.Process.Kill(); _ = out.Close() })
	return b
}

func (b *inBox) line() string {
	b.t.Helper()
	line, err := b.out.ReadString('\n')
	if err != nil {
		_ = b.cmd.Wait()
		b.t.Fatalf("%v after %q\n%s", err, line, b.stderr.String())
	}
	return line
}

// ready waits until the server is up.
func (b *inBox) ready() {
	b.t.Helper()
	if line := b.line(); !strings.Contains(line, `"ready"`) {
		b.t.Fatalf("instead of ready the server said %q", line)
	}
}

// ended waits for the end of the container and returns the code that its client has.
func (b *inBox) ended() int {
	b.t.Helper()
	_, _ = io.Copy(io.Discard, b.out)
	_ = b.cmd.Wait()
	return b.cmd.ProcessState.ExitCode()
}

// What a first process does with signals, orphans and codes is alone_test.go.
func TestDockerfile(t *testing.T) {
	e := engineFor(t)
	image := "mcp-tether-e2e:" + e.mark(t)
	e.tetheredImage(t, image)
	// The strictest of all: nothing can be written, and the user is in no file.
	strict := []string{"--read-only", "--user", "12345:12345", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"}
	for name, c := range map[string]struct {
		flags    []string
		warnings int
	}{
		"strict":                          {strict, 1},
		"plain, with a place for records": {[]string{"-e", "XDG_RUNTIME_DIR=/dev/shm"}, 0},
	} {
		t.Run("answers/"+name, func(t *testing.T) {
			t.Parallel()
			b := e.runImage(t, image, c.flags, "/server", "boxed", "mcp")
			b.ready()
			_, err := io.WriteString(b.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`+"\n")
			ok(t, err)
			if line := b.line(); !strings.Contains(line, "hello") {
				t.Errorf("the server answers %q", line)
			}
			ok(t, b.in.Close())
			if code := b.ended(); code != 0 {
				t.Errorf("exit %d\n%s", code, b.stderr.String())
			}
			if n := strings.Count(b.stderr.String(), "\n"); n != c.warnings || c.warnings > 0 && !strings.Contains(b.stderr.String(), "not recorded") {
				t.Errorf("want %d warnings, and standard error has\n%s", c.warnings, b.stderr.String())
			}
		})
	}
	for name, c := range map[string]struct {
		setting string
		command []string
		want    int
	}{
		"exits":         {"A=", []string{"/server", "tool", "say", "", "", "42"}, 42},
		"not found":     {"A=", []string{"/nothing"}, 127},
		"wrong setting": {"MCP_TETHER_TERM_GRACE=soon", []string{"/server", "boxed"}, 125},
	} {
		t.Run("exit codes/"+name, func(t *testing.T) {
			t.Parallel()
			b := e.runImage(t, image, []string{"-e", c.setting}, c.command...)
			if code := b.ended(); code != c.want {
				t.Errorf("exit %d, want %d\n%s", code, c.want, b.stderr.String())
			}
		})
	}
}
