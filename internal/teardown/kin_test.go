package teardown

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var (
	_ = testkit.Rest("rest")
	_ = testkit.Role("nest", nest)
	_ = testkit.Role("daemon", daemon)
	_ = testkit.Role("stubborn", stubborn)
	_ = testkit.Role("stopped", stopped)
	_ = testkit.Role("heir", heir)
	_ = testkit.Role("generation", generation)
)

// nest has one child, without any environment.
func nest() {
	spawn("rest", nil)
	testkit.Report("nest")
	testkit.Await()
}

// daemon is a double fork.
func daemon() { spawn("rest", &syscall.SysProcAttr{Setsid: true}) }

func stubborn() {
	signal.Ignore(syscall.SIGTERM)
	testkit.Report("stubborn")
	testkit.Await()
}

// heir executes another program at SIGTERM, which is to be kept.
func heir() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	testkit.Report("heir")
	<-term
	_ = unix.Exec("/proc/self/exe", append(slices.Clone(os.Args[:2]), "rest"), append(os.Environ(), KeepMark))
	testkit.Fail("no exec")
}

func stopped() {
	testkit.Report("stopped")
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	testkit.Await()
}

// generation is a family on the run: each generation starts the next in a session of its own, and ends. None reaps
// another.
func generation() {
	if !released() {
		spawn("generation", &syscall.SysProcAttr{Setsid: true})
	}
}

func released() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// spawn starts a role with next to no environment.
func spawn(name string, attr *syscall.SysProcAttr) {
	testkit.Spawn(name, attr, "GORACE=atexit_sleep_ms=0") // for a binary with the race detector; nothing else
}

// start starts a role and waits for as many reports. The test must be a subreaper, or there must be no daemons.
func start(t *testing.T, name string, reports int, env ...string) *testkit.Kin {
	t.Helper()
	return testkit.Start(t, name, reports, nil, env...)
}

// own is a scope whose root is the test itself, as a subreaper until the test ends.
func own(t *testing.T) *Membership {
	t.Helper()
	if err := proc.BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// All are dead by now, unless the test has failed.
		(&Membership{Root: os.Getpid()}).killUntilEmpty(t)
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	})
	return &Membership{Root: os.Getpid()}
}

// reapAll reaps whatever has ended, and reports whether a child is left.
func reapAll(t *testing.T) bool {
	t.Helper()
	left, err := proc.Reap(func(int, unix.WaitStatus) {})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// awaitExit waits for the end of one process.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	fd, err := proc.OpenPidfd(pid)
	if errors.Is(err, proc.ErrGone) {
		return // reaped by the process that had adopted it
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// A signal, such as the Go runtime's own, ends a wait early.
	for deadline := time.Now().Add(testkit.Patience); proc.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, time.Until(deadline)) == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("process %d has not ended", pid)
		}
	}
}
