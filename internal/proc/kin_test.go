package proc

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var (
	_ = testkit.Rest("rest")
	_ = testkit.Headless("headless")
	_ = testkit.Role("nest", nest)
	_ = testkit.Role("daemon", daemon)
	_ = testkit.Role("family", family)
)

// nest has a child.
func nest() {
	testkit.Spawn("rest", nil)
	testkit.Report("nest")
	testkit.Await()
}

// daemon starts a daemon, and is gone before that is up.
func daemon() { testkit.Spawn("rest", &syscall.SysProcAttr{Setsid: true}) }

func family() {
	testkit.Spawn("rest", nil)
	spawnFromThread("rest")
	testkit.Spawn("nest", &syscall.SysProcAttr{Setpgid: true})
	// The daemon's dead parent is left unreaped.
	_ = unix.Waitid(unix.P_PID, testkit.Spawn("daemon", nil), nil, unix.WEXITED|unix.WNOWAIT, nil)
	testkit.Report("family")
	testkit.Await()
}

// spawnFromThread starts a role from a thread that is not the main one and lives on. The kernel lists children by the
// thread that forked them.
func spawnFromThread(name string) {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		testkit.Spawn(name, nil)
		done <- true
		select {}
	}()
	<-done
}

// subreaper gives the test that role until it ends.
func subreaper(t *testing.T) {
	t.Helper()
	if err := BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		for { // all are dead by now
			if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
				return
			}
		}
	})
}
