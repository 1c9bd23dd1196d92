package e2e

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"mcp-tether/e2e/testkit"
)

// What the socket between a session and its engine costs sessions that have no use for it.

// An engine that nobody uses is not dialled, neither while the session runs nor when it ends.
func TestIdleEngineIsNotDialled(t *testing.T) {
	t.Parallel()
	for _, end := range boxEndings {
		if end.name != "wrapper" && end.name != "supervisor" {
			continue
		}
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			l, host := listenUnix(t)
			dialled := make(chan error, 1)
			go func() {
				_, err := l.Accept()
				dialled <- err
			}()
			s := startGateway(t).newSession()
			s.Spawn(setup{Flags: polite(), Env: []string{"DOCKER_HOST=" + host}}, node(s.Dir, "serve", "daemon")...)
			s.WaitReady()
			if got := s.environment("DOCKER_HOST"); got == host || got == "" {
				t.Errorf("the server's DOCKER_HOST is %q, want that of a proxy", got)
			}
			end.end(s)
			s.Gone()
			_ = l.Close()
			if err := <-dialled; !errors.Is(err, net.ErrClosed) {
				t.Errorf("the engine was dialled (%v)", err)
			}
		})
	}
}

// Supervisors with and without an engine in sight are the same to the kernel, but for one socket.
func TestEngineInSightCostsOneSocket(t *testing.T) {
	t.Parallel()
	_, host := listenUnix(t)
	start := func(flag string) *session {
		s := startGateway(t).newSession()
		s.Spawn(setup{Flags: polite(flag), Env: []string{"DOCKER_HOST=" + host}}, node(s.Dir, "serve")...)
		s.WaitReady()
		return s
	}
	count := func(s *session) (processes, files int) {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Supervisor()))
		return len(s.Members()), len(open)
	}
	off, on := start("--containers=off"), start("--containers=auto")
	// A supervisor that looks at something has it open for a moment.
	testkit.Until(t, "as many processes, and one more descriptor", func() bool {
		offProcesses, offFiles := count(off)
		onProcesses, onFiles := count(on)
		return onProcesses == offProcesses && onFiles == offFiles+1
	})
}
