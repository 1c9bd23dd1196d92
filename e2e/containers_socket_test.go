package e2e

import (
	"errors"
	"net"
	"testing"
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
