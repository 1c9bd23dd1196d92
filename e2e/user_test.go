package e2e

import (
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

const nobody = 65534

// A member that belongs to another user and may not be killed is named, its record stays, and the session ends.
func TestUnkillableMemberIsNamed(t *testing.T) {
	testkit.Need(t, testkit.Namespaces) // in a container root may not look at the files of others
	t.Parallel()
	name := setuidCopy(t)
	s := startGatewayAs(t, nobody).tree(setup{Flags: resisting(politeRoot)}, "serve", "setsid,setuid,comm="+name, "daemon")
	s.WaitReady()
	s.Signal(syscall.SIGTERM)
	wantExit(t, s.Wait(), "exit 143")
	left := s.Members()
	if len(left) != 1 {
		t.Fatalf("left: %v, want the one of another user", left)
	}
	c := s.Ended()
	if c.Cause != "signal" || c.Signal != "SIGTERM" || *c.Exit != 143 || !*c.Leaked {
		t.Errorf("closing event: %+v, exit %d, leaked %v", c, *c.Exit, *c.Leaked)
	}
	if len(c.Survivors) != 1 || c.Survivors[0].PID != left[0].PID || c.Survivors[0].UID != 0 || c.Survivors[0].Why == "" {
		t.Errorf("survivors = %+v, want pid %d of user 0, and why", c.Survivors, left[0].PID)
	}
	if got := s.Records(); len(got) != 1 {
		t.Errorf("records = %v, want the session's, for a later sweep", got)
	}
	s.EndAll()
}
