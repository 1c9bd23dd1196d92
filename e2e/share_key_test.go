package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Sessions share only if a server could take each for the other: whatever binds a process, or is inherited by it, tells them apart.
// Equal ones share. Seen to serve a session without network from the host's, and one without capabilities by a server that has all.
func TestShareAsOne(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	testkit.Long(t)
	testkit.Lacks(t, testkit.Tools, !(has("unshare") && has("nsenter") && has("setpriv") && has("prlimit") && has("chrt")), "util-linux")
	t.Parallel()
	s := share(t)
	apart := [][]string{
		nil, {"setpriv", "--groups", "7"}, {"setpriv", "--bounding-set", "-sys_ptrace"}, {"setpriv", "--no-new-privs"},
		{"prlimit", "--cpu=1000"}, {"prlimit", "--nofile=500:600"}, {"chrt", "--batch", "0"}, {"setarch", "-R"},
		{"sh", "-c", `umask 026; exec "$@"`, "sh"}, {"sh", "-c", `trap "" USR1; exec "$@"`, "sh"},
	}
	// The test may be nice itself, so that nothing is nicer. The kernel says 20 less the niceness.
	if rest, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && rest > 1 {
		apart = append(apart, []string{"nice", "-n", "1"})
	}
	if runtime.NumCPU() > 1 {
		apart = append(apart, []string{"taskset", "1"})
	}
	for _, kind := range []string{"net", "mount", "uts", "ipc", "cgroup", "user", "time"} {
		apart = append(apart, s.inNamespace(kind))
	}
	s.client().echo()
	for i, outer := range apart {
		s.outer = outer
		s.client().echo()
		if n := s.starts(); n != i+1 {
			t.Fatalf("%q: %d servers, want %d", outer, n, i+1)
		}
	}
	s.end()
}

// inNamespace is how sessions start in one other namespace of a kind, which ends with the test.
func (s *sharing) inNamespace(kind string) []string {
	s.t.Helper()
	args := []string{"--" + kind}
	if kind == "time" {
		args = append(args, "--fork", "--kill-child")
	}
	holder := exec.Command("unshare", append(args, "sh", "-c", "echo; exec cat")...)
	// It ends with its standard input. A signal at the death of its parent would also come at the end of the thread that started it.
	in, err := holder.StdinPipe()
	ok(s.t, err)
	out, err := holder.StdoutPipe()
	ok(s.t, err)
	ok(s.t, holder.Start())
	s.t.Cleanup(func() { _ = in.Close(); _ = holder.Wait() })
	_, err = out.Read(make([]byte, 1))
	ok(s.t, err)
	pid := holder.Process.Pid
	if kind == "time" {
		pid = childrenOf(pid)[0]
	}
	enter := []string{"nsenter", fmt.Sprintf("--target=%d", pid), "--" + kind}
	return slices.Concat(enter, map[string][]string{"user": {"--preserve-credentials"}, "time": {"--no-fork"}}[kind])
}

// Another version of the program has a host of its own: it may speak in another way. So has another environment, but for what the
// shell notes and the user leaves out. ps says what tells servers apart.
func TestShareKeys(t *testing.T) {
	t.Parallel()
	s := share(t, "--share-ignore-env=RUN")
	for i, env := range [][]string{{"RUN=1"}, {"RUN=2", "SHLVL=7", "OLDPWD=/"}, {"COUNTS=1"}} {
		s.env = env
		s.client().echo()
		if n := s.starts(); n != 1+i/2 {
			t.Errorf("%d servers of sessions with %q", n, env)
		}
	}
	testkit.Until(t, "ps says what differs", func() bool {
		return strings.Contains(s.tether("ps"), "shared by 1, apart by environment")
	})
	s.program = s.Dir + "/other"
	copyProgram(t, tether, s.program)
	s.client().echo()
	if n := s.starts(); n != 3 {
		t.Errorf("%d servers, want 3", n)
	}
	s.end()
}

// A session under a seccomp filter shares with those that have the filters of the gateway, and with nobody else.
func TestShareFiltered(t *testing.T) {
	testkit.Long(t)
	testkit.Need(t, testkit.Namespaces)
	t.Parallel()
	s := share(t)
	s.client().echo()
	s.outer = inWorld(nil, "refuse=splice:EINVAL")
	s.client().echo()
	s.client().echo()
	if n, hosts := s.starts(), len(s.with("\x00__host\x00")); n != 3 || hosts != 1 {
		t.Errorf("%d servers and %d hosts", n, hosts)
	}
	if b, _ := os.ReadFile(s.Dir + "/stderr"); strings.Count(string(b), "seccomp") != 2 {
		t.Errorf("no reason was given: %s", b)
	}
	// The gateway's own filter binds all of its sessions alike.
	s = share(t)
	g := startGatewayIn(t, stage.World{Steps: []string{"refuse=splice:EINVAL"}})
	for i := range 2 {
		r := s.run(g, "pipe")
		r.greet()
		r.echo(i + 1)
	}
	if n := s.starts(); n != 1 {
		t.Errorf("%d servers of a gateway that is filtered, want 1", n)
	}
	g.Kill()
	s.wantGone()
}
