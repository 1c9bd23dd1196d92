package evidence

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// What another user may not look at is an error, and no answer: a kernel may fail to say so.
// Go starts a process as another user from within our memory, which the kernel then keeps from us for good, unless we may read
// all (CAP_SYS_PTRACE). So this is not for the root of a container.
func TestNamespacesOfAnotherUser(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	k := testkit.Start(t, "closed", 0, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	if line := k.Line(); line != "false\n" {
		t.Errorf("answered: %q", line)
	}
}

var _ = testkit.Role("closed", func() {
	_, err := sameNetwork(os.Getppid())
	testkit.Say(fmt.Sprint(err == nil))
})
