package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
)

// A living gateway lets go of its servers' pipes: servers that ignore the end of their input stay. They are listed at
// once, and ended if they are still dropped after the dwell; their siblings are in use.
func TestDroppedIsEnded(t *testing.T) {
	forBoth(t, func(t *testing.T, stdio string, user int) {
		g := startGatewayAs(t, user)
		dropped := g.tree(setup{Bare: true, Stdio: stdio}, "serve,ignore-eof", "setsid/plain", "plain")
		healthy := g.tree(setup{Bare: true, Stdio: stdio}, "serve,ignore-eof", "setsid/plain", "plain")
		dropped.WaitReady()
		healthy.WaitReady()
		outgrow(t)
		both := "--match=fixture node .* - 0 serve"
		if r := operator.reap(t, 0, "--kill", "--unwrapped", both); len(r.Findings) > 0 { // the control
			t.Errorf("nothing was let go of, found %v", r.Findings)
		}
		dropped.closeStdin()
		// As with subprocess.run of Python: there is one question, and the gateway waits for the answer.
		if r := operator.reap(t, 0, "--kill", "--unwrapped", both); len(r.Findings) > 0 {
			t.Errorf("its answer is waited for, found %v", r.Findings)
		}
		dropped.closeStdout()
		for _, args := range [][]string{nil, {"--kill"}} {
			if r := operator.reap(t, 1, append(args, both)...); r.classes() != "dropped" || r.Findings[0].Result != "listed" || !r.Findings[0].has(dropped.Server) {
				t.Errorf("%v: found %v", args, r.Findings)
			}
		}
		if r := operator.reap(t, 0, "--kill", "--unwrapped", both); r.classes() != "dropped" || r.Findings[0].Result != "ended" {
			t.Errorf("found %v", r.Findings)
		}
		dropped.WaitDead()
		if !strings.Contains(healthy.Ask(`{"id":7,"method":"ping"}`), `"id":7`) {
			t.Error("a sibling in use was ended")
		}
	})
}

// orphan starts a command over a pipe that is closed, from a shell that has ended, once it says that it is up.
func orphan(t *testing.T, argv ...string) (pid int) {
	t.Helper()
	script := `exec 3<&0; "$@" <&3 & exec 3<&-; echo $!`
	shell := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, argv...)...)
	in, err := shell.StdinPipe()
	ok(t, err)
	r, w, err := os.Pipe()
	ok(t, err)
	shell.Stdout = w
	ok(t, shell.Start())
	ok(t, w.Close())
	defer r.Close()
	pid = upAndPID(t, r)
	ok(t, in.Close())
	_ = shell.Wait()
	return pid
}

// A process that is not dumpable shows root as the owner of its files in /proc, and is its user's all the same. It is
// ended, and nothing that lives is reported as ended.
func TestReapNotDumpable(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	pid := undumpable(t, nobody)
	outgrow(t)
	forge(t, nobody, theirDir, nil, pid)
	r := operator.reap(t, 0, "--kill")
	state := stage.Describe(pid).State
	if r.classes() != "record" || r.Findings[0].Result != "ended" || state != "Z" && state != "" {
		t.Errorf("found %v, state %q", r.Findings, state)
	}
}

// undumpable starts a process that has the mark of a session and cannot be read, as an orphan.
func undumpable(t *testing.T, user int) (pid int) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `"$@" & echo $!`, "sh", fixture, "undumpable")
	cmd.Env = []string{"MCP_TETHER_SESSION=" + anID}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	pid = upAndPID(t, out)
	ok(t, cmd.Wait())
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// upAndPID reads two lines, in either order: that of a fixture that is up, and its pid from the shell that started it.
func upAndPID(t *testing.T, out io.Reader) (pid int) {
	t.Helper()
	lines := bufio.NewReader(out)
	for range 2 {
		line, err := lines.ReadString('\n')
		ok(t, err)
		if line != "up\n" {
			pid = number(t, strings.TrimSpace(line))
		}
	}
	return pid
}
