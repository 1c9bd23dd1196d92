package proc

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

var _ = testkit.Role("launcher", launcher)

// launcher is a role: its name is that of a launcher.
func launcher() {
	SetComm("env")
	testkit.Report("launcher")
	testkit.Await()
}

func TestWatchGateway(t *testing.T) {
	var r Reader
	k := testkit.Start(t, "launcher", 1, nil)
	o, behind, err := r.WatchGateway(k.PID)
	if err != nil || !behind || o.PID != os.Getpid() || o.FD < 0 || r.Ended(o) {
		t.Errorf("behind a launcher: %+v, %v, %v", o, behind, err)
	}
	_ = unix.Close(o.FD)
	if o, behind, err := r.WatchGateway(os.Getpid()); err != nil || behind || o.FD >= 0 {
		t.Errorf("a parent that is none: %+v, %v, %v", o, behind, err)
	}
	k.Stdin.Close()
	wait(t, k.PID)
}

// Whichever way an owner is watched, its end is seen, and nothing before it.
func TestOwnerEnds(t *testing.T) {
	var r Reader
	k := testkit.Start(t, "rest", 1, nil)
	byFD, err := r.watch(k.PID)
	if err != nil || byFD.FD < 0 || byFD.PID != k.PID || byFD.Start == 0 {
		t.Fatalf("%+v, %v", byFD, err)
	}
	defer unix.Close(byFD.FD)
	byEntry := byFD
	byEntry.FD = -1
	if r.Ended(byFD) || r.Ended(byEntry) {
		t.Error("ended while it lives")
	}
	k.Stdin.Close()
	awaitExit(t, k.PID)
	if !r.Ended(byFD) || !r.Ended(byEntry) {
		t.Error("not ended")
	}
	wait(t, k.PID)
	if !r.Ended(byFD) || !r.Ended(byEntry) {
		t.Error("not ended when it was waited for")
	}
	if _, err := r.watch(k.PID); !errors.Is(err, ErrGone) {
		t.Errorf("watched after its end: %v", err)
	}
}

// Where an owner cannot be seen, another parent of its child tells of its end.
func TestOwnerOfChildEnds(t *testing.T) {
	var r Reader
	k := testkit.Start(t, "rest", 1, nil)
	for pid, want := range map[int]bool{os.Getpid(): false, os.Getpid() + 1: true} {
		if got := r.Ended(Owner{ID: ID{PID: pid}, FD: -1, Child: k.PID}); got != want {
			t.Errorf("process %d, whose child has the parent %d: ended %v", pid, os.Getpid(), got)
		}
	}
	k.Stdin.Close()
	wait(t, k.PID)
}

func TestWatchParent(t *testing.T) {
	var r Reader
	o, err := r.watchParent()
	if err != nil || o.PID != os.Getppid() || o.FD < 0 || r.Ended(o) {
		t.Fatalf("%+v, %v", o, err)
	}
	_ = unix.Close(o.FD)
	if o.FD = -1; r.Ended(o) {
		t.Error("ended without a pidfd")
	}
	if o.PID--; !r.Ended(o) {
		t.Error("another parent says nothing")
	}
}
