package evidence

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A pid namespace is there for as long as its init, and gone with it.
func TestPIDNamespaces(t *testing.T) {
	own, err := PIDNamespace(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Lacks(t, testkit.Host, os.Getuid() != 0 || own != firstPIDNamespace, "only root sees all pid namespaces, from the first one")
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ns, err := PIDNamespace(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	all, err := PIDNamespaces()
	if err != nil || !all[ns] || !all[own] {
		t.Errorf("with its init: %v, %v", all, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if all, err = PIDNamespaces(); err != nil || all[ns] || !all[own] {
		t.Errorf("without its init: %v, %v", all, err)
	}
}

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var _ = testkit.Role("namespaces", func() {
	if os.Getpid() == 1 {
		_ = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		_ = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	_, err := PIDNamespaces()
	testkit.Say(strconv.FormatBool(errors.Is(err, errPartOfTable)))
})

// From another pid namespace, or without the right to look, nothing is known.
func TestPIDNamespacesInPart(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	for name, attr := range map[string]*syscall.SysProcAttr{
		"another pid namespace": {Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS},
		"another user":          {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
	} {
		k := testkit.Start(t, "namespaces", 0, attr)
		if line := k.Line(); line != "true\n" {
			t.Errorf("%s: %q", name, line)
		}
	}
}

// What another user may not look at is an error, and no answer: a kernel may fail to say so.
// Go starts a process as another user from within our memory, which the kernel then keeps from us for good, unless we may read
// all (CAP_SYS_PTRACE). So this is not for the root of a container.
func TestNamespacesOfAnotherUser(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	k := testkit.Start(t, "closed", 0, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	if line := k.Line(); line != "false false\n" {
		t.Errorf("answered: %q", line)
	}
}

var _ = testkit.Role("closed", func() {
	_, pid := PIDNamespace(os.Getppid())
	_, network := sameNetwork(os.Getppid())
	testkit.Say(fmt.Sprint(pid == nil, network == nil))
})
