package e2e

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// As a container's first process.

// container is a session whose wrapper is the first process of a PID namespace; unshare waits for it outside.
func container(t *testing.T, flags []string, argv func(s *session) []string) (s *session, first int) {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	testkit.Lacks(t, testkit.Tools, err != nil, "unshare")
	testkit.Need(t, testkit.Namespaces)
	s = startGateway(t).newSession()
	head := []string{unshare, "--fork", "--pid", "--mount-proc"}
	s.Spawn(setup{Bare: true}, append(head, s.Wrap(flags, argv(s)...)...)...)
	s.WaitReady()
	return s, firstChild(t, s.PID)
}

func tree(root string, children ...string) func(s *session) []string {
	return func(s *session) []string { return node(s.Dir, root, children...) }
}

func TestFirstProcess(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		end  func(s *session, first int)
		exit string
	}{
		"stdin closed": {func(s *session, _ int) { s.closeStdin() }, "exit 0"},
		"SIGTERM":      {func(_ *session, first int) { _ = syscall.Kill(first, syscall.SIGTERM) }, "exit 143"},
	}
	for name, e := range ends {
		t.Run(name, func(t *testing.T) {
			if name == "SIGTERM" {
				testkit.Long(t)
			}
			t.Parallel()
			s, first := container(t, polite(), tree("serve", "daemon", "setsid,closefds,clearenv,chdir"))
			if s.Server == 1 {
				t.Error("the server itself is the first process")
			}
			supervisor := firstChild(t, first)
			if below := children(supervisor); len(below) != 2 { // the server, and the daemon that fell to us
				t.Errorf("below the supervisor: %v", below)
			}
			e.end(s, first)
			wantExit(t, s.Wait(), e.exit)
			s.Gone()
			s.Ended()
		})
	}
}

// children lists the children of a process, zombies left out.
func children(pid int) []proc {
	return slices.DeleteFunc(stage.Below(pid), func(p proc) bool { return p.PPID != pid })
}

// Orphans fall to the first process, and are waited for.
func TestFirstProcessReaps(t *testing.T) {
	t.Parallel()
	s, first := container(t, polite(), tree("serve", "orphans=100", "setsid/orphans=100"))
	testkit.Until(t, "no zombies", func() bool { return zombies(first) == 0 })
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	s.Gone()
}

// The control: a first process that does not care about children that are not its own keeps them as zombies.
func TestFirstProcessWithoutUsKeepsZombies(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	testkit.Lacks(t, testkit.Tools, err != nil, "unshare")
	testkit.Need(t, testkit.Namespaces)
	t.Parallel()
	s := startGateway(t).newSession()
	argv := append([]string{unshare, "--fork", "--pid", "--mount-proc"}, node(s.Dir, "serve", "setsid/orphans=50")...)
	s.Spawn(setup{Bare: true}, argv...)
	s.WaitReady()
	first := firstChild(t, s.PID)
	testkit.Until(t, "50 zombies", func() bool { return zombies(first) >= 50 }) // the last of them is dying
	s.closeStdin()
	s.WaitDead()
}
