package proc

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
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
	a, b := startKin(t, "rest", 1, nil), startKin(t, "rest", 1, nil)
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
	a.stdin.Close()
	awaitExit(t, a.pid)
	if left, err := Reap(note); !left || err != nil || !slices.Equal(got, []int{a.pid}) {
		t.Errorf("one living: left %v, %v, reaped %v", left, err, got)
	}
	b.stdin.Close()
	awaitExit(t, b.pid)
	if left, err := Reap(note); left || err != nil || !slices.Equal(got, []int{a.pid, b.pid}) {
		t.Errorf("none living: left %v, %v, reaped %v", left, err, got)
	}
}

// For a subreaper, "none left" includes what had detached itself.
func TestReapSeesDaemons(t *testing.T) {
	subreaper(t)
	k := startKin(t, "daemon", 1, nil)
	awaitExit(t, k.pid)
	if left, err := Reap(func(int, unix.WaitStatus) {}); !left || err != nil {
		t.Errorf("with a daemon: left %v, %v", left, err)
	}
	k.stdin.Close()
	awaitExit(t, k.pids[0])
	if left, err := Reap(func(int, unix.WaitStatus) {}); left || err != nil {
		t.Errorf("after its end: left %v, %v", left, err)
	}
}

func TestHasExited(t *testing.T) {
	k := startKin(t, "rest", 1, nil)
	if ended, err := HasExited(k.pid); ended || err != nil {
		t.Errorf("living: %v, %v", ended, err)
	}
	k.stdin.Close()
	awaitExit(t, k.pid)
	for range 2 { // it is left to be reaped
		if ended, err := HasExited(k.pid); !ended || err != nil {
			t.Errorf("ended: %v, %v", ended, err)
		}
	}
	wait(t, k.pid)
	if _, err := HasExited(k.pid); err == nil {
		t.Error("no error for a child that was reaped")
	}
}

func TestHasChildren(t *testing.T) {
	if HasChildren() {
		t.Error("without any")
	}
	k := startKin(t, "rest", 1, nil)
	if !HasChildren() {
		t.Error("with a living one")
	}
	k.stdin.Close()
	awaitExit(t, k.pid)
	if !HasChildren() {
		t.Error("with an unreaped one")
	}
	wait(t, k.pid)
	if HasChildren() {
		t.Error("after it was reaped")
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
	if !readable(t, fd, int(patience.Milliseconds())) {
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
