package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A world is a machine on which something is missing that the wrapper would use.
type world struct {
	steps []string // of the fixture's verb
	uid   int
}

// The gateway dies without pidfds, while others hold the server's streams: nothing tells of it. It is looked for.
func TestGatewayDiesUnseen(t *testing.T) {
	t.Parallel()
	for parent, script := range map[string]string{"gateway": `exec "$@" <>"$0" >>"$0.out"`} {
		for _, flags := range [][]string{nil} {
			t.Run(parent+strings.Join(flags, ""), func(t *testing.T) {
				testkit.Need(t, testkit.Namespaces)
				t.Parallel()
				s := startGateway(t).newSession()
				stdin := filepath.Join(s.Dir, "stdin")
				s.ok(syscall.Mkfifo(stdin, 0o600))
				argv := inWorld(s.Wrap(polite(flags...), node(s.Dir, "serve", "daemon")...), "refuse=pidfd_open:EPERM", "refuse=pidfd_send_signal:EPERM")
				s.Spawn(setup{Bare: true}, append([]string{"/bin/sh", "-c", script, stdin}, argv...)...)
				testkit.Until(t, "the server", func() bool {
					said, _ := os.ReadFile(stdin + ".out")
					return bytes.Contains(said, []byte(`"ready"`))
				})
				s.WaitRecord()
				s.gw.Kill()
				s.Gone()
				s.EndedWhole("gateway-gone")
			})
		}
	}
}

// gateway starts a gateway in the world.
func (w world) gateway(t *testing.T) *gateway {
	t.Helper()
	testkit.Need(t, testkit.Namespaces)
	return startGatewayIn(t, stage.World{UID: w.uid, Steps: w.steps})
}

// below is the pid of the one child of a process, without a look at any record.
func (s *session) below(parent int) int {
	s.t.Helper()
	all := childrenOf(parent)
	if len(all) == 0 {
		s.t.Fatalf("process %d has no child", parent)
	}
	return all[0]
}
