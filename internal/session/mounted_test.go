package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

// Any user may mount a file system in /tmp where another one's records would be. It says that it belongs to that user.
// It is passed over, and nothing is asked of it: one that does not answer keeps nobody waiting.
func TestMountedInTheWay(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	for _, kind := range []string{"tmpfs", "fuse"} {
		t.Run(kind, func(t *testing.T) {
			cmd := testkit.Command(t, "mounted", kind)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

var _ = testkit.Role("mounted", mounted)

// victim is the user whose directory is looked for.
const victim = 64321

// mounted is the test itself, in a mount namespace of its own. Its /tmp is a mount too, which is nobody's business.
func mounted() {
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", temporaryDir, "tmpfs", 0, "mode=1777"))
	name := fallbackDir(victim)
	if err := errors.Join(err, os.Mkdir(name, 0o700), os.Chown(name, victim, victim)); err != nil {
		testkit.Fail(err.Error())
	}
	if got := namesOf(OpenAll(victim, "")); !slices.Contains(got, name) {
		testkit.Fail(fmt.Sprintf("the control: %v lacks %s", got, name))
	}
	if err := mountAt(name, testkit.RoleArgs()[0]); err != nil {
		testkit.Fail(err.Error())
	}
	var got []string
	if !proc.InTime(testkit.Patience, func() {
		got = namesOf(OpenAll(victim, ""))
		_, err = Open(victim, "")
	}) {
		testkit.Fail("it waits for the file system")
	}
	if slices.Contains(got, name) {
		testkit.Fail(name + " was opened")
	}
	if err == nil || !strings.Contains(err.Error(), "mount point") {
		testkit.Fail(fmt.Sprintf("records would be written there: %v", err))
	}
}

// mountAt mounts a file system that says that it is the victim's, or one that says nothing at all.
func mountAt(name, kind string) error {
	options := fmt.Sprintf("mode=0700,uid=%d", victim)
	if kind == "fuse" {
		fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		options = fmt.Sprintf("fd=%d,rootmode=40700,user_id=0,group_id=0,allow_other", fd)
	}
	return unix.Mount("none", name, kind, unix.MS_NOSUID|unix.MS_NODEV, options)
}
