package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A sweep looks at the whole host. So that it meets nothing but its own test, that test runs on a host of its own. The
// host has private pid, mount and cgroup namespaces, and its own /proc, /tmp and /run. When the test ends, the kernel
// ends every process there.

const inHost = "MCP_TETHER_E2E_HOST"

// fixtureOutside names the fixture that a test on a host of its own is given.
const fixtureOutside = "MCP_TETHER_E2E_FIXTURE"

// onOwnHost tells whether the test runs there. If not, it runs the same test there, and reports its outcome. What the
// test's tree is like decides whether it must wait for its turn (storm).
func onOwnHost(t *testing.T, tree ...string) bool {
	t.Helper()
	if os.Getenv(inHost) != "" {
		return true
	}
	testkit.Need(t, testkit.Namespaces)
	t.Parallel()
	return runOnOwnHost(t, tree...)
}

// onOwnHostAlone is onOwnHost for a test beside which no other one may run. Its processes can be seen from the outside,
// and a process that reads their command lines is kept waiting. Parts of one test may run beside each other, each on a host
// of its own: no part looks at another's, and outside nobody looks at any meanwhile.
func onOwnHostAlone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inHost) != "" {
		return true
	}
	testkit.Need(t, testkit.Namespaces)
	return runOnOwnHost(t)
}

func runOnOwnHost(t *testing.T, tree ...string) bool {
	t.Helper()
	storm(t, tree...)
	self, err := os.Executable()
	ok(t, err)
	cwd, err := os.Getwd()
	ok(t, err)
	cmd := programs().Host(t.Context(), nest(t), []string{filepath.Dir(cwd), os.Getenv("HOME")},
		self, "-test.run="+exactly(t.Name()), "-test.v", "-test.timeout=10m", "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(hostEnviron(), inHost+"=1", "MCP_TETHER_BIN="+tether, fixtureOutside+"="+fixture, "TMPDIR=/tmp")
	out, err := cmd.CombinedOutput()
	t.Logf("on a host of its own:\n%s", out)
	switch {
	case err != nil:
		t.Errorf("%v", err)
	case bytes.Contains(out, []byte("--- SKIP: "+t.Name()+" ")):
		testkit.SkipAs(t, string(out))
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")):
		t.Error("the test did not run there")
	}
	return false
}

// exactly is the pattern for -test.run that matches one test, or one part of a test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

func hostEnviron() []string {
	var out []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		// An engine is a part of the host: a test that wants one starts its own there.
		if name != "XDG_RUNTIME_DIR" && name != testkit.SkipsVar && name != "TMPDIR" && name != testEngine && name != testPodman && name != "DOCKER_HOST" {
			out = append(out, e)
		}
	}
	return out
}

// outcome is how a command of the binary ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// caller says who calls the binary.
type caller struct {
	uid     int
	runtime string // XDG_RUNTIME_DIR
	env     []string
}

var operator = caller{} // root at a terminal of its own, with nothing in the environment

func (c caller) command(args ...string) *exec.Cmd {
	cmd := exec.Command(tether, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "XDG_STATE_HOME=" + os.Getenv("XDG_STATE_HOME")}, c.env...)
	if c.runtime != "" {
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+c.runtime)
	}
	if c.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}}
	}
	return cmd
}

// run calls the binary and waits for it.
func (c caller) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, c.command(args...))
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// identity is a process as reports name it.
type identity struct {
	PID   int
	Start uint64
}

// finding is what a sweep reports of one tree.
type finding struct {
	Class, Session, Name string
	Top                  identity
	Members              []identity
	Containers           []foundContainer
	Count, UID           int
	Command, Evidence    []string
	Gateway              struct {
		PID            int
		State, Command string
	}
	Advice      string
	AgeSeconds  *int64  `json:"age_seconds"`
	MemoryBytes *uint64 `json:"memory_bytes"`
	User        string
	Result      string
	Survivors   []string
}

func (f finding) String() string {
	return fmt.Sprintf("%s %s pid %d (%d members), %s: %s", f.Class, f.Session, f.Top.PID, len(f.Members), f.Result,
		strings.Join(append(f.Evidence, f.Survivors...), "; "))
}

// foundContainer is a container as reports show it.
type foundContainer struct{ Engine, Kind, ID, Name, Image, State, Why, Result string }

func (f finding) has(pid int) bool {
	for _, m := range f.Members {
		if m.PID == pid {
			return true
		}
	}
	return false
}

// sweep is the outcome of one reap.
type sweep struct {
	outcome
	Version  int
	Killed   bool
	Findings []finding
	Warnings []string
	// Incomplete is what could not be looked at.
	Incomplete []string
}

// reap runs one pass with --json and fails unless it ends with the code, if that is not negative.
func (c caller) reap(t *testing.T, code int, args ...string) sweep {
	t.Helper()
	return parseSweep(t, code, c.run(t, append([]string{"reap", "--json"}, args...)...))
}

func parseSweep(t *testing.T, code int, o outcome) sweep {
	t.Helper()
	r := sweep{outcome: o}
	if err := json.Unmarshal([]byte(r.stdout), &r); err != nil {
		t.Fatalf("reap: %v\nstdout: %s\nstderr: %s", err, r.stdout, r.stderr)
	}
	if r.code != code && code >= 0 || r.Version != 1 {
		t.Fatalf("reap: exit code %d, want %d; version %d\nfindings: %v\nwarnings: %v\nstderr: %s",
			r.code, code, r.Version, r.Findings, r.Warnings, r.stderr)
	}
	return r
}

// classes lists the classes that were found.
func (r sweep) classes() string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Class)
	}
	return strings.Join(out, " ")
}

// about returns the finding that names the process, and whether there is one.
func (r sweep) about(pid int) (finding, bool) {
	for _, f := range r.Findings {
		if f.has(pid) {
			return f, true
		}
	}
	return finding{}, false
}

// shareRuntime puts the session's record where every reap of its user looks.
func (s *session) shareRuntime() {
	s.t.Helper()
	s.Runtime = "/run"
	if s.gw.UID == 0 {
		return
	}
	s.Runtime = fmt.Sprintf("/run/user/%d", s.gw.UID)
	s.ok(os.MkdirAll(s.Runtime, 0o755))
	s.ok(os.Chmod(s.Runtime, 0o700))
	s.ok(os.Chown(s.Runtime, s.gw.UID, s.gw.UID))
}

// swept expects that nothing is left: no process, record or cgroup.
func (s *session) swept() {
	s.t.Helper()
	s.WaitDead()
	if left := s.Records(); len(left) > 0 {
		s.t.Errorf("records left: %v", left)
	}
	files, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "*"))
	for _, left := range files {
		if !slices.Contains([]string{"reap.lock", "sweep.lock"}, filepath.Base(left)) {
			s.t.Errorf("left: %s", left)
		}
	}
	if leaves := allLeaves(); len(leaves) > 0 {
		s.t.Errorf("cgroups left: %v", leaves)
	}
}

// allLeaves lists the sessions' cgroups below our own.
func allLeaves() []string {
	own, err := stage.OwnCgroup()
	if err != nil {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(own, "mcp-tether-*"))
	return found
}

// killPair ends both wrappers so that neither sees the other's end: what a crash of the host's memory management does.
func killPair(t *testing.T, anchor int) {
	t.Helper()
	freeze(t, anchor)
	for _, pid := range childrenOf(anchor) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		stage.AwaitExit(t, pid)
	}
	_ = syscall.Kill(anchor, syscall.SIGKILL)
	stage.AwaitExit(t, anchor)
}

// freeze stops a process and returns when it has stopped, or ended.
func freeze(t *testing.T, pid int) {
	t.Helper()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	testkit.Until(t, "a process that has stopped", func() bool {
		now := stage.Describe(pid).State
		return now == "T" || now == "Z" || now == ""
	})
}

// outgrow returns when the clock tick in which a process was born is over: until then a sweep takes it for newborn.
func outgrow(t testing.TB) {
	t.Helper()
	const tick = int64(10 * time.Millisecond)
	now := func() int64 {
		var now unix.Timespec
		ok(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
		return now.Nano() / tick
	}
	first := now()
	testkit.Until(t, "the next clock tick", func() bool { return now() > first+1 })
}

// endNicely ends living sessions as their gateway's end does, and waits.
func endNicely(g *gateway, all ...*session) {
	g.t.Helper()
	g.Kill()
	for _, s := range all {
		s.WaitDead()
	}
}

func childrenOf(pid int) []int {
	var out []int
	// Each thread has a list of its own, and a process in Go starts others from any thread.
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range lists {
		list, _ := os.ReadFile(file)
		for _, f := range strings.Fields(string(list)) {
			var child int
			_, _ = fmt.Sscan(f, &child)
			out = append(out, child)
		}
	}
	return out
}
