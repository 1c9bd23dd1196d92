package proc

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

var (
	_ = testkit.Role("catch", catchAll)
	_ = testkit.Role("ignore", ignoreTwo)
	_ = testkit.Role("listen", listen)
)

// ignoreTwo is a role: it ignores two signals.
func ignoreTwo() {
	for _, sig := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGHUP} {
		if err := Ignore(sig); err != nil {
			testkit.Fail(err.Error())
		}
	}
	testkit.Report("ignore")
	testkit.Await()
}

// listen is a role: it was started with SIGHUP ignored, leaves SIGTSTP alone, and tells which signals are caught and ignored.
func listen() {
	if _, err := Listen(AtExec{Ignored: signalBit(syscall.SIGHUP) | signalBit(syscall.SIGUSR1)}, JobControl, syscall.SIGUSR2); err != nil {
		testkit.Fail(err.Error())
	}
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		a, err := getAction(n)
		switch {
		case err != nil || !catchable(n):
		case a.handler == 0:
			testkit.Say(fmt.Sprintf("default %d", n))
		case a.handler == sigIgn:
			testkit.Say(fmt.Sprintf("ignored %d", n))
		}
	}
	testkit.Say("end")
}

// catchAll is a role: it catches every signal that it may, has the kernel send it SIGIO, and tells what arrives until
// SIGTERM does.
func catchAll() {
	fd, err := Catch(^uint64(0) &^ signalBit(syscall.SIGCHLD))
	if err != nil {
		testkit.Fail(err.Error())
	}
	if err := kernelSignal(); err != nil {
		testkit.Fail(err.Error())
	}
	testkit.Report("catch")
	var got []Caught
	for {
		Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		got = ReadCaught(fd, got[:0])
		for _, c := range got {
			testkit.Say(fmt.Sprintf("kernel=%v %d", c.FromKernel, c.Signal))
			if c.Signal == syscall.SIGTERM {
				return
			}
		}
	}
}

// kernelSignal has the kernel itself send SIGIO, as a terminal would send SIGINT to its group.
func kernelSignal() error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETOWN, os.Getpid()); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_ASYNC); err != nil {
		return err
	}
	_, err := unix.Write(p[1], []byte("x"))
	return err
}

// Every catchable signal arrives once for each time it is sent alone, in order, and says who sent it.
func TestCatch(t *testing.T) {
	k := testkit.Start(t, "catch", 1, nil)
	if got := k.Line(); got != fmt.Sprintf("kernel=true %d\n", syscall.SIGIO) {
		t.Errorf("first %q, want SIGIO from the kernel", got)
	}
	for n := syscall.Signal(1); n <= lastSignal; n++ {
		if !catchable(n) || n == syscall.SIGTERM || n == syscall.SIGCHLD {
			continue
		}
		for range 2 {
			if err := unix.Kill(k.PID, n); err != nil {
				t.Fatal(err)
			}
			if got, want := k.Line(), fmt.Sprintf("kernel=false %d\n", n); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
	// Real-time signals queue. At least one of them is told of, and the last signal is seen behind them.
	const many = 400
	for range many {
		if err := unix.Kill(k.PID, 50); err != nil {
			t.Fatal(err)
		}
	}
	if got := k.Line(); got != "kernel=false 50\n" {
		t.Fatalf("%q", got)
	}
	if err := unix.Kill(k.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for n := 0; k.Line() != "kernel=false 15\n"; n++ {
		if n > many {
			t.Fatal("more signals than were sent")
		}
	}
	k.Dead()
	if ws := wait(t, k.PID); ExitCode(ws) != 0 {
		t.Errorf("exit code %d", ExitCode(ws))
	}
}

// However often they came, each signal is read once: those that end a session, then SIGCHLD, then the others. Who sent the last
// one counts.
func TestReadCaught(t *testing.T) {
	const noBell = -1
	all := []syscall.Signal{1, 2, 3, 15, syscall.SIGCHLD, 10, 12, 24, 28, 64}
	for _, sig := range all {
		signalsPending |= signalBit(sig)
	}
	signalsByKernel = signalBit(syscall.SIGINT) | signalBit(syscall.SIGXCPU)
	var want []Caught
	for _, sig := range all {
		want = append(want, Caught{sig, sig == syscall.SIGINT || sig == syscall.SIGXCPU})
	}
	if got := ReadCaught(noBell, nil); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := ReadCaught(noBell, nil); got != nil {
		t.Errorf("read again: %v", got)
	}
	signalsByKernel = 0
}

// All that may be caught is, but for what is left or ignored.
func TestListen(t *testing.T) {
	k := testkit.Start(t, "listen", 0, nil)
	want := map[string]bool{
		"ignored 1\n": true, "ignored 12\n": true, "ignored 13\n": true, "ignored 25\n": true,
		"default 20\n": true, "default 21\n": true, "default 22\n": true,
	}
	for line := k.Line(); line != "end\n"; line = k.Line() {
		if !want[line] {
			t.Errorf("%q", line)
		}
		delete(want, line)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	k.Dead()
	wait(t, k.PID)
}

func TestCatchable(t *testing.T) {
	never := []syscall.Signal{
		syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL,
		syscall.SIGTRAP, syscall.SIGSYS, 32, 33, 34,
	}
	for n := syscall.Signal(-1); n <= lastSignal+1; n++ {
		want := n >= 1 && n <= 64 && !slices.Contains(never, n)
		if got := catchable(n); got != want {
			t.Errorf("signal %d: %v", n, got)
		}
	}
}

func TestIgnore(t *testing.T) {
	k := testkit.Start(t, "ignore", 1, nil)
	for _, sig := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGHUP} {
		if err := unix.Kill(k.PID, sig); err != nil {
			t.Fatal(err)
		}
	}
	k.Stdin.Close()
	if ws := wait(t, k.PID); ExitCode(ws) != 0 {
		t.Errorf("exit code %d", ExitCode(ws))
	}
}
