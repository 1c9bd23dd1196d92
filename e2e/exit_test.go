package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

// The exit code is the server's own, although a process is left to be ended first: also what means something to a shell or to us.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for i, code := range []int{0, 1, 2, 125, 126, 127, 128, 137, 255} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			sample(t, 3)
			t.Parallel()
			testExit(t, []string{"auto", "off"}[i%2], "exit="+strconv.Itoa(code), code)
		})
	}
}

// A signal that ends the server reads as 128+n, as in a shell.
func TestExitBySignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGTERM, 34, 64} {
		t.Run(strconv.Itoa(int(sig)), func(t *testing.T) {
			sample(t, 3)
			t.Parallel()
			testExit(t, "auto", "die="+strconv.Itoa(int(sig)), 128+int(sig))
		})
	}
}

// testExit runs a server that ends as told once its daemon is up.
func testExit(t *testing.T, cgroup, how string, code int) {
	s := startGateway(t).tree(setup{Flags: polite("--cgroup=" + cgroup)}, how, "daemon")
	wantExit(t, s.Wait(), "exit "+strconv.Itoa(code))
	s.Gone()
	if c := s.EndedWhole("server-exited"); *c.Exit != code {
		t.Errorf("the log says exit %d, want %d", *c.Exit, code)
	}
}

// A script whose interpreter is missing is not said to be missing itself.
func TestMissingInterpreter(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"#! /nowhere/node -x\n": "the interpreter /nowhere/node of its first line is missing",
		"#!/bin/sh\r\necho\r\n": "its first line ends with a carriage return, so that the interpreter /bin/sh is not found",
		"#!/nowhere/\x1b[2Jx":   "the interpreter /nowhere/?[2Jx of its first line is missing",
	} {
		dir := t.TempDir()
		script := filepath.Join(dir, "srv")
		testkit.WriteProgram(t, script, []byte(line))
		cmd := exec.Command(tether, "run", "--", script)
		cmd.Env = []string{"XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir}
		if o := finish(t, cmd); o.code != 127 || !strings.Contains(o.stderr, want) {
			t.Errorf("%+v", o)
		}
	}
}

// A person who talks to a server shares it with nobody, and is told so.
func TestShareOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, w, err := os.Pipe()
	ok(t, err)
	defer r.Close()
	y := openTTY(t, []string{"XDG_RUNTIME_DIR=" + dir}, w, tether, "run", "--share", "--", "/bin/echo", "up")
	y.expect("--share, --lazy, --hibernate, --on-crash, --restart-on, --stdout-guard and --keep-stderr have no effect on a terminal")
	y.expect("up")
	if err := y.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
