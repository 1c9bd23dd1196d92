package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

var worlds = []world{
	{name: "other user", uid: nobody, why: "permission denied"},
	{name: "hidepid", steps: []string{"hidepid"}, uid: nobody, why: "permission denied"},
	{name: "no children files", hidden: []string{"/children"}},
	{name: "no children files, no cgroup", hidden: []string{"/children"}, flags: []string{"--cgroup=off"}},
	{name: "no children files, hidepid", hidden: []string{"/children"}, steps: []string{"hidepid"}, uid: nobody, why: "permission denied"},
	{name: "no pidfd", steps: []string{noOpen, noSend}, why: "-"},
	{name: "no pidfd, no cgroup", steps: []string{noOpen, noSend}, flags: []string{"--cgroup=off"}, why: "-"},
	{name: "pidfd denied", steps: []string{"refuse=pidfd_open:EPERM", "refuse=pidfd_send_signal:EPERM"}, flags: []string{"--cgroup=off"}, why: "-"},
	{name: "pidfd cannot signal", steps: []string{noSend}, flags: []string{"--cgroup=off"}, why: "-"},
	{name: "no clone3", steps: []string{"refuse=clone3:ENOSYS"}},
	{name: "clone3 denied", steps: []string{"refuse=clone3:EPERM"}},
	{name: "no way into the leaf", steps: []string{"refuse=clone3:ENOSYS"}, hidden: []string{"/cgroup.procs"}, why: "cgroup.procs"},
	{name: "no cgroup.kill", hidden: []string{"/cgroup.kill"}},
	{name: "no cgroup.kill, no freezer", hidden: []string{"/cgroup.kill", "/cgroup.freeze"}},
	{name: "no cgroup2", steps: []string{"nocgroup"}, why: "no cgroup v2"},
	{name: "cgroup2 read-only", steps: []string{"rocgroup"}, why: "read-only file system"},
	{
		name: "all at once", steps: []string{"rocgroup", "hidepid", noOpen, noSend, "refuse=clone3:ENOSYS"},
		hidden: []string{"/children"}, uid: nobody, why: "read-only file system",
	},
}

// losses are the endings that a missing mechanism could turn into a leak.
var losses = []ending{
	endings[0],
	endings[1],
	{name: "anchor killed", end: func(s *session) { s.signal(syscall.SIGKILL) }, causes: []string{"anchor-gone"}},
	{
		name: "supervisor killed", end: func(s *session) { _ = syscall.Kill(s.below(s.pid), syscall.SIGKILL) },
		causes: []string{"supervisor-gone"},
	},
}

// detached is a tree of what escapes a simple wrapper.
var detached = []string{"daemon/plain", "setsid,closefds,clearenv,chdir", "daemon,ignore-term", "setsid,family=4"}

func TestDegraded(t *testing.T) {
	t.Parallel()
	for i, w := range worlds {
		for j, e := range losses {
			t.Run(w.name+"/"+e.name, func(t *testing.T) {
				sample(t, len(losses), i, j)
				w.needs(t)
				storm(t, detached...)
				g, asked := w.start(t)
				s := g.tree(setup{flags: append(resisting("--log-level=debug", stormKill), w.flags...)}, "serve", detached...)
				s.waitReady()
				if w.why != "" && w.why != "-" {
					s.logged(func(line []byte) bool { return bytes.Contains(line, []byte("degraded")) })
				}
				e.end(s)
				s.gone()
				s.endedWhole(e.causes...)
				s.wantDegraded(w.why)
				if asked != nil && asked.denied.Load() == 0 {
					t.Errorf("nobody has looked for %v", w.hidden)
				}
			})
		}
	}
}

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

// At the default level there is nothing to say about it.
func TestDegradedQuietly(t *testing.T) {
	t.Parallel()
	for i, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			sample(t, 3, i)
			t.Parallel()
			w.needs(t)
			s := w.gateway(t).tree(setup{flags: append(polite("--log-level=warn"), w.flags...)}, "serve", "daemon")
			s.waitReady()
			s.closeStdin()
			wantExit(t, s.wait(), "exit 0")
			s.gone()
			for _, file := range []string{s.log, s.stderr} {
				if b, err := os.ReadFile(file); err != nil || len(b) > 0 {
					t.Errorf("%s (%v): %s", filepath.Base(file), err, b)
				}
			}
		})
	}
}

// A required cgroup that cannot be had stops the session before anything is started.
func TestRequiredCgroupIsMissing(t *testing.T) {
	t.Parallel()
	for _, w := range worlds {
		if w.why == "" || w.why == "-" {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.needs(t)
			s := w.gateway(t).newSession()
			s.spawn(setup{flags: []string{"--cgroup=require"}}, "/bin/sh", "-c", "echo started >"+filepath.Join(s.dir, "notes"))
			wantExit(t, s.wait(), "exit 125")
			s.gone()
			if s.notes() != "" {
				t.Error("the server was started")
			}
			said, _ := os.ReadFile(s.stderr)
			if !strings.Contains(string(said), "--cgroup=require") || !strings.Contains(string(said), w.why) {
				t.Errorf("stderr does not tell why: %q", said)
			}
		})
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

// A required cgroup that can be had, by whatever way, is used.
func TestRequiredCgroupIsUsed(t *testing.T) {
	t.Parallel()
	list := []world{
		{name: "no clone3", steps: []string{"refuse=clone3:ENOSYS"}},
		{name: "clone3 denied", steps: []string{"refuse=clone3:EPERM"}},
		{name: "no cgroup.kill", hidden: []string{"/cgroup.kill"}},
		{name: "cgroup2 elsewhere", steps: []string{"movecgroup=" + t.TempDir()}},
	}
	for i, w := range list {
		for j, e := range losses {
			t.Run(w.name+"/"+e.name, func(t *testing.T) {
				sample(t, len(losses), i, j)
				w.needs(t)
				storm(t, detached...)
				s := w.gateway(t).tree(setup{flags: resisting("--cgroup=require", stormKill)}, "serve", detached...)
				s.waitReady()
				s.wantLeaf()
				e.end(s)
				s.gone()
				s.endedWhole(e.causes...)
			})
		}
	}
}

// needs skips a world whose point is the cgroup where there is none.
func (w world) needs(t *testing.T) {
	t.Helper()
	if !slices.Contains(w.flags, "--cgroup=off") {
		needCgroup(t)
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
func needWorld(t *testing.T) {
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

// wantDegraded expects one event that says so, or none.
func (s *session) wantDegraded(why string) {
	s.t.Helper()
	found := s.events("containment degraded")
	switch {
	case why == "-" && len(found) <= 1:
	case why == "" && len(found) == 0:
	case len(found) != 1:
		s.t.Errorf("%d events say that the containment is degraded: %s", len(found), slices.Concat(found...))
	default:
		var e struct{ Level, Why string }
		s.ok(json.Unmarshal(found[0], &e))
		if e.Level != "debug" || !strings.Contains(e.Why, why) {
			s.t.Errorf("want %q at level debug: %s", why, found[0])
		}
	}
}

// wantLeaf expects the server in the session's own cgroup.
func (s *session) wantLeaf() {
	s.t.Helper()
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.server))
	s.ok(err)
	if !strings.Contains(string(in), "/mcp-tether-"+s.id()+"\n") {
		s.t.Errorf("the server is in\n%s", in)
	}
}
