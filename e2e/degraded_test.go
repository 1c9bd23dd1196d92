package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// A world is a machine on which something is missing that the wrapper would use. The gateway lives in it, and so does
// all that it starts.
type world struct {
	name   string
	steps  []string // of the fixture's verb
	hidden []string // files that cannot be opened, by the ends of their paths
	flags  []string
	uid    int
	// why the containment is degraded: part of what the log must say; "" when it must be whole, "-" when either will do.
	why string
}

const (
	noOpen = "refuse=pidfd_open:ENOSYS"
	noSend = "refuse=pidfd_send_signal:ENOSYS"
)

// The gateway dies without pidfds, while others hold the server's streams: nothing tells of it. It is looked for.
func TestGatewayDiesUnseen(t *testing.T) {
	t.Parallel()
	for parent, script := range map[string]string{"gateway": `exec "$@" <>"$0" >>"$0.out"`, "launcher": `"$@" <>"$0" >>"$0.out" # mcp-tether`} {
		for _, flags := range [][]string{nil, {"--no-anchor"}} {
			t.Run(parent+strings.Join(flags, ""), func(t *testing.T) {
				needWorld(t)
				t.Parallel()
				s := startGateway(t).newSession()
				stdin := filepath.Join(s.dir, "stdin")
				s.ok(syscall.Mkfifo(stdin, 0o600))
				argv := inWorld(s.wrap(polite(flags...), node(s.dir, "serve", "daemon")...), noOpen, noSend)
				s.spawn(setup{bare: true}, append([]string{"/bin/sh", "-c", script, stdin}, argv...)...)
				testkit.Until(t, "the server", func() bool {
					said, _ := os.ReadFile(stdin + ".out")
					return bytes.Contains(said, []byte(`"ready"`))
				})
				s.waitRecord()
				s.gw.kill()
				s.gone()
				s.endedWhole("gateway-gone")
			})
		}
	}
}

// A command that cannot be executed has its own exit code, and the cgroup is not blamed for it.
func TestRequiredCgroupIsNotBlamed(t *testing.T) {
	t.Parallel()
	needCgroup(t)
	s := startGateway(t).newSession()
	script := filepath.Join(s.dir, "script")
	testkit.WriteProgram(t, script, []byte("#!/nonexistent\n"))
	s.spawn(setup{flags: []string{"--cgroup=require"}}, script)
	wantExit(t, s.wait(), "exit 127")
	s.gone()
	if said, err := os.ReadFile(s.stderr); err != nil || !strings.Contains(string(said), script) || strings.Contains(string(said), "--cgroup") {
		t.Errorf("stderr (%v): %q", err, said)
	}
}

// gateway starts a gateway in the world.
func (w world) gateway(t *testing.T) *gateway {
	t.Helper()
	g, _ := w.start(t)
	return g
}

// start is gateway, and also returns what answers for the hidden files.
func (w world) start(t *testing.T) (*gateway, *opens) {
	t.Helper()
	needWorld(t)
	g := &gateway{t: t, uid: w.uid, dir: t.TempDir()}
	g.openDir()
	args := append([]string{"world"}, w.steps...)
	var asked *opens
	if len(w.hidden) > 0 {
		asked = hide(t, w.hidden...)
		args = append(args, "ask=3")
	}
	if w.uid != 0 {
		args = append(args, "uid=65534")
	}
	g.cmd = exec.Command(fixture, append(args, "--", fixture, "gateway")...)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if asked == nil {
		g.launch()
		return g, nil
	}
	g.cmd.ExtraFiles = []*os.File{asked.theirs}
	g.launch()
	asked.answer()
	return g, asked
}

// needWorld skips a test where the superuser may not mount.
func needWorld(t testing.TB) {
	t.Helper()
	cmd := exec.Command(fixture, "world", "--", fixture, "gateway") // ends at once: it has no stdin
	testkit.Need(t, os.Geteuid() == 0 && cmd.Run() == nil, "a superuser who may mount")
}

// below is the pid of the one child of a process, without a look at any record.
func (s *session) below(parent int) int {
	s.t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid := number(s.t, filepath.Base(dir))
		if describe(pid).ppid == parent {
			return pid
		}
	}
	s.t.Fatalf("process %d has no child", parent)
	return 0
}
