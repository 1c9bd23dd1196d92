package proc

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

func uintptrOf(p *int32) uintptr { return uintptr(unsafe.Pointer(p)) }

func TestExitCode(t *testing.T) {
	for code := range 256 {
		if got := ExitCode(unix.WaitStatus(code << 8)); got != code {
			t.Errorf("exit %d gives %d", code, got)
		}
	}
	for sig := 1; sig <= 64; sig++ {
		for _, dumped := range []int{0, 0x80} {
			if got := ExitCode(unix.WaitStatus(sig | dumped)); got != 128+sig {
				t.Errorf("signal %d gives %d", sig, got)
			}
		}
	}
}

func TestReap(t *testing.T) {
	if left, err := Reap(func(pid int, _ unix.WaitStatus) { t.Errorf("reaped %d", pid) }); left || err != nil {
		t.Fatalf("without children: left %v, %v", left, err)
	}
	a, b := testkit.Start(t, "rest", 1, nil), testkit.Start(t, "rest", 1, nil)
	var got []int
	note := func(pid int, ws unix.WaitStatus) {
		if ExitCode(ws) != 0 {
			t.Errorf("%d ended with %d", pid, ExitCode(ws))
		}
		got = append(got, pid)
	}
	if left, err := Reap(note); !left || err != nil || got != nil {
		t.Errorf("two living: left %v, %v, reaped %v", left, err, got)
	}
	a.Stdin.Close()
	awaitExit(t, a.PID)
	if left, err := Reap(note); !left || err != nil || !slices.Equal(got, []int{a.PID}) {
		t.Errorf("one living: left %v, %v, reaped %v", left, err, got)
	}
	b.Stdin.Close()
	awaitExit(t, b.PID)
	if left, err := Reap(note); left || err != nil || !slices.Equal(got, []int{a.PID, b.PID}) {
		t.Errorf("none living: left %v, %v, reaped %v", left, err, got)
	}
}

// For a subreaper, "none left" includes what had detached itself.
func TestReapSeesDaemons(t *testing.T) {
	subreaper(t)
	k := testkit.Start(t, "daemon", 1, nil)
	awaitExit(t, k.PID)
	if left, err := Reap(func(int, unix.WaitStatus) {}); !left || err != nil {
		t.Errorf("with a daemon: left %v, %v", left, err)
	}
	k.Stdin.Close()
	awaitExit(t, k.PIDs[0])
	if left, err := Reap(func(int, unix.WaitStatus) {}); left || err != nil {
		t.Errorf("after its end: left %v, %v", left, err)
	}
}

func TestHasExited(t *testing.T) {
	k := testkit.Start(t, "rest", 1, nil)
	if ended, err := HasExited(k.PID); ended || err != nil {
		t.Errorf("living: %v, %v", ended, err)
	}
	k.Stdin.Close()
	awaitExit(t, k.PID)
	for range 2 { // it is left to be reaped
		if ended, err := HasExited(k.PID); !ended || err != nil {
			t.Errorf("ended: %v, %v", ended, err)
		}
	}
	wait(t, k.PID)
	if _, err := HasExited(k.PID); err == nil {
		t.Error("no error for a child that was reaped")
	}
}

// awaitExit waits for the end of a child and leaves it unreaped.
func awaitExit(t *testing.T, pid int) {
	t.Helper()
	fd, err := OpenPidfd(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if !readable(t, fd, int(testkit.Patience.Milliseconds())) {
		t.Fatalf("%d did not end", pid)
	}
}

func readable(t *testing.T, fd, milliseconds int) bool {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, milliseconds)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
}
