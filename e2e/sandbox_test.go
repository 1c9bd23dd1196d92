package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Sandboxes are somebody else's, and stand between mcp-tether and the server: run -- bwrap ... -- SERVER. The server works in them,
// and nothing is left of it, in whatever namespaces it is.

// sandboxes are what stands before the server's command. The directory is the session's, which the server writes to.
func sandboxes(t *testing.T, dir string) map[string][]string {
	t.Helper()
	npm, err := filepath.Abs("gateways/node_modules/.bin")
	noError(t, err)
	bwrap := []string{lookPath(t, "bwrap"), "--bind", "/", "/", "--dev-bind", "/dev", "/dev"}
	return map[string][]string{
		"bwrap":             append(bwrap, "--"),
		"bwrap, namespaces": append(bwrap, "--unshare-all", "--proc", "/proc", "--new-session", "--"),
		// It makes no programs of its own below a temporary directory.
		"codex": {
			lookPath(t, "env"), "TMPDIR=" + dir + "/tmp", "CODEX_HOME=" + dir + "/home", npm + "/codex", "sandbox", "-c", `sandbox_mode="workspace-write"`,
			"-c", `sandbox_workspace_write.writable_roots=["` + dir + `"]`, "--",
		},
		"srt": {npm + "/srt", "-s", filepath.Join(dir, "srt.json")},
	}
}

// sandboxed starts the fixture's server in a sandbox. It ignores the end of its input, and has a child that has detached itself.
func sandboxed(t *testing.T, name string, with setup) *session {
	t.Helper()
	s := startGateway(t).newSession()
	for _, sub := range []string{"tmp", "home"} {
		s.ok(os.Mkdir(filepath.Join(s.Dir, sub), 0o700))
	}
	s.ok(os.WriteFile(filepath.Join(s.Dir, "srt.json"), []byte(`{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["`+s.Dir+`"],"denyWrite":[]}}`), 0o600))
	sandbox := sandboxes(t, s.Dir)[name]
	try := exec.Command(sandbox[0], append(sandbox[1:], "/bin/true")...)
	out, err := try.CombinedOutput()
	testkit.Lacks(t, testkit.Gateways, err != nil, name+" as a sandbox: "+strings.TrimSpace(string(out)))
	// Some pass no descriptors on, and srt gives its words to a shell.
	server := filepath.Join(s.Dir, "server")
	script := "#!/bin/sh\nexec 9>" + s.Life.Path + "\nexec " + fixture + " mcp " + s.Dir + " - 0 serve,ignore-eof daemon,clearenv\n"
	testkit.WriteProgram(t, server, []byte(script))
	s.Spawn(with, append(sandbox, server)...)
	t.Cleanup(func() {
		for _, p := range s.named() {
			_ = p.Signal(unix.SIGKILL)
		}
	})
	s.greet()
	s.echo(3)
	return s
}

// named are the fixture's processes, also those whose pid namespace is another one. The kernel knows them by their pids here.
func (s *session) named() []proc { return stage.Saying("^"+fixture+"\x00", "\x00"+s.Dir+"\x00") }

// The gateway is killed, and nothing is left. Of the same command alone the control leaves the server.
func TestSandboxes(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	for name := range sandboxes(t, "") {
		for _, bare := range []bool{false, true} {
			t.Run(map[bool]string{true: "bare ", false: "tethered "}[bare]+name, func(t *testing.T) {
				t.Parallel()
				s := sandboxed(t, name, setup{Bare: bare, Flags: resisting()})
				if len(s.named()) < 2 {
					t.Fatalf("the server and its child run as %v", s.named())
				}
				s.gw.Kill()
				if bare {
					outgrow(t)
					if len(s.named()) == 0 {
						t.Error("nothing is left: the test shows nothing")
					}
					return
				}
				testkit.Until(t, "nothing of the server is left", func() bool { return len(s.named()) == 0 })
				s.Gone()
			})
		}
	}
}
