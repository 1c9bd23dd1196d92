package share

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/testkit"
)

// The end of each owner ends the session, however many there are, and whatever else is waited for.
func TestEachOwnerIsSeen(t *testing.T) {
	t.Parallel()
	for owners := 1; owners <= 2; owners++ {
		for ends := range owners {
			for more := range 3 {
				a := attachment{signals: silent(t), parent: os.Getppid()}
				for i := range owners {
					fd := silent(t)
					if i == ends {
						fd = ended(t)
					}
					a.owners = append(a.owners, fd)
				}
				var others []unix.PollFd
				for range more {
					others = append(others, unix.PollFd{Fd: int32(silent(t)), Events: unix.POLLIN})
				}
				if err := a.poll(testkit.Patience, others...); !errors.Is(err, errOwnerGone) {
					t.Errorf("the end of owner %d of %d, beside %d others: %v", ends+1, owners, more, err)
				}
			}
		}
	}
}

// Hosts that end at once, before any has served the session, end it. Once one has, the next is only waited for.
func TestHostsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	for _, served := range []bool{false, true} {
		notes, err := unix.MemfdCreate("notes", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(notes)
		if served {
			if err := unix.Ftruncate(notes, 1); err != nil {
				t.Fatal(err)
			}
		}
		a := attachment{signals: silent(t), parent: os.Getppid(), notes: notes, failures: mostStarts, lastTry: time.Now()}
		if err := a.slowDown(); (err == nil) != served {
			t.Errorf("served %t: %v", served, err)
		}
	}
}

// How long a host takes to start does not count: only how soon after its start, or the connection to it, it has ended.
func TestSlowStartsAreStillFailures(t *testing.T) {
	t.Parallel()
	a := attachment{signals: silent(t), parent: os.Getppid(), notes: -1}
	for n := 1; n <= 3; n++ {
		a.lastTry = time.Now().Add(-time.Millisecond) // as find leaves it
		if err := a.slowDown(); err != nil || a.failures != n {
			t.Errorf("%v, failures %d, want %d", err, a.failures, n)
		}
		proc.Sleep(quickEnd + quickEnd/2) // the next start
	}
	a.lastTry = time.Now().Add(-2 * quickEnd)
	if err := a.slowDown(); err != nil || a.failures != 1 {
		t.Errorf("after a longer life: %v, failures %d", err, a.failures)
	}
}

// silent is a descriptor on which nothing happens.
func silent(t *testing.T) int {
	t.Helper()
	r, w := testkit.Pipe(t)
	t.Cleanup(func() { r.Close(); w.Close() })
	fd := int(r.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	return fd
}

// ended is one that is reported at once.
func ended(t *testing.T) int {
	t.Helper()
	r, w := testkit.Pipe(t)
	w.Close()
	t.Cleanup(func() { r.Close() })
	return int(r.Fd())
}
