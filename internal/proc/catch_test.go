package proc

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// However often they came, each signal is read once: those that end a session, then SIGCHLD, then the others.
func TestTake(t *testing.T) {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	s := Signals{bell: bell}
	want := []syscall.Signal{1, 2, 3, 15, syscall.SIGCHLD, 10, 12, 24, 28, 64}
	for _, sig := range want {
		s.pending.Or(uint64(setOf(sig)))
	}
	if got := s.Take(nil); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := s.Take(nil); got != nil {
		t.Errorf("taken again: %v", got)
	}
	if got := (*Signals)(nil).Take(nil); got != nil {
		t.Errorf("nobody listens: %v", got)
	}
}

const lastSent = syscall.Signal(40)

// The listener sends itself signals, and writes those that it has heard.
var _ = testkit.Role("listener", func() {
	fail := func(err error) {
		if err != nil {
			testkit.Fail(err.Error())
		}
	}
	blocked := sigsetOf(uint64(setOf(syscall.SIGUSR2)))
	fail(unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil))
	fail(unix.Tgkill(os.Getpid(), unix.Gettid(), syscall.SIGUSR2))
	s, err := Listen(setOf(syscall.SIGWINCH))
	fail(err)
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGWINCH,
		syscall.SIGUSR1, syscall.SIGTSTP, syscall.SIGCHLD, syscall.SIGQUIT, syscall.SIGTERM, lastSent,
	} {
		fail(unix.Kill(os.Getpid(), sig))
	}
	var heard []syscall.Signal
	for !slices.Contains(heard, lastSent) {
		if Poll([]unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}, testkit.Patience) == 0 {
			testkit.Fail("the bell is not rung")
		}
		heard = s.Take(heard)
	}
	slices.Sort(heard)
	for _, sig := range heard {
		fmt.Fprintf(os.Stdout, "%d ", sig)
	}
})

// All signals are heard, also one that was blocked, but for those that are ignored, that our own work raises, or that are to be left.
func TestListen(t *testing.T) {
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Ignore(syscall.SIGHUP)
		defer signal.Reset(syscall.SIGHUP)
	}
	cmd := testkit.Command(t, "listener")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(out)); got != "3 10 12 15 17 20 40" || err != nil {
		t.Errorf("heard %q, %v", got, err)
	}
}
