package evidence

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
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

// A listener in a network namespace of its own is in no table of ours, and reached all the same.
func TestReachedInAnotherNetwork(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	for _, flags := range []uintptr{0, syscall.CLONE_NEWNET} {
		k := testkit.Start(t, "listening", 0, &syscall.SysProcAttr{Cloneflags: flags})
		k.Line()
		if why := Reached([]int{k.PID}, []int{k.PID}); !strings.Contains(why, "(tcp)") {
			t.Errorf("with flags %#x: %q", flags, why)
		}
	}
}

var _ = testkit.Role("listening", func() {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	testkit.Say(fmt.Sprint(err))
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err == nil {
		l.Close()
	}
})

var _ = testkit.Role("closed", func() {
	_, err := sameNetwork(os.Getppid())
	testkit.Say(fmt.Sprint(err == nil))
})
