package e2e

import (
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// Every exit code is the server's own, although a process is left to be ended first.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, cgroup := range []string{"auto", "off"} {
		t.Run("cgroup="+cgroup, func(t *testing.T) {
			t.Parallel()
			for code := range 256 {
				t.Run(strconv.Itoa(code), func(t *testing.T) {
					sample(t, 25, code)
					testExit(t, cgroup, "exit="+strconv.Itoa(code), code)
				})
			}
		})
	}
}

// A signal that ends the server reads as 128+n, as in a shell.
func TestExitBySignal(t *testing.T) {
	ignored := []syscall.Signal{
		syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH,
		syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	}
	t.Parallel()
	for n := 1; n <= 64; n++ {
		if slices.Contains(ignored, syscall.Signal(n)) {
			continue
		}
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			sample(t, 9, n)
			testExit(t, "auto", "die="+strconv.Itoa(n), 128+n)
		})
	}
}

// testExit runs a server that ends as told once its daemon is up.
func testExit(t *testing.T, cgroup, how string, code int) {
	s := startGateway(t).tree(setup{flags: polite("--cgroup=" + cgroup)}, how, "daemon")
	wantExit(t, s.wait(), "exit "+strconv.Itoa(code))
	s.gone()
	if c := s.endedWhole("server-exited"); *c.Exit != code {
		t.Errorf("the log says exit %d, want %d", *c.Exit, code)
	}
}
