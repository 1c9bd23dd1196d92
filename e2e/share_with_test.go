package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// What the other flags of run promise holds for a shared server as well.

// first has the server's launcher run a command line of the shell before it.
func (s *sharing) first(line string) {
	s.command = slices.Clone(s.command)
	s.command[2] = line + "\n" + s.command[2]
}

// Of two helpers that detached themselves, the one that is marked outlives the server, whatever ends the host.
func TestShareKeeps(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]unix.Signal{"host SIGTERM": unix.SIGTERM, "host SIGKILL": unix.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			if end == unix.SIGTERM {
				testkit.Long(t)
			}
			t.Parallel()
			s := share(t)
			fifo := filepath.Join(s.Dir, "fifo")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, helper := range []string{"MCP_TETHER_KEEP=1 setsid sh -c 'read x' kept", "setsid sh -c 'read x' ended"} {
				s.first(helper + " " + s.Dir + " <>" + fifo + " >/dev/null 2>&1 &")
			}
			a, b := s.client(), s.client()
			a.echo()
			b.echo()
			const helper = "^sh\x00-c\x00read x\x00"
			testkit.Until(t, "both helpers are there", func() bool { return len(s.with(helper)) == 2 })
			kept := s.one(helper + "kept\x00")
			host := s.host()
			a.in.Close()
			b.in.Close()
			if err := unix.Kill(host, end); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "only the kept one is left", func() bool {
				left := s.with()
				return len(left) == 1 && left[0].PID == kept
			})
			_ = unix.Kill(kept, unix.SIGKILL)
		})
	}
}
