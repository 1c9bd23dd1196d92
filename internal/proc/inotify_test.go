package proc

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// The kernel takes back an inotify instance that was closed without waiting. A user has 128 as a rule, and can have
// many more one after the other.
func TestCloseWatchGivesTheInstanceBack(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	for range 400 {
		watch := -1
		testkit.Until(t, "an inotify instance", func() bool {
			var err error
			watch, err = WatchReaders(p[1])
			if err != nil && !errors.Is(err, unix.EMFILE) {
				t.Fatal(err)
			}
			return err == nil
		})
		CloseWatch(watch)
	}
}

// The watch reports the end of the last reader, and HasReader sees it.
func TestWatchReaders(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[1])
	watch := -1
	// Other tests and sessions of the user take instances as well, and give them back a moment later.
	testkit.Until(t, "an inotify instance", func() bool {
		var err error
		watch, err = WatchReaders(p[1])
		if err != nil && !errors.Is(err, unix.EMFILE) {
			t.Fatal(err)
		}
		return err == nil
	})
	defer CloseWatch(watch)
	if err := HoldPath(p[1]); err != nil {
		t.Fatal(err)
	}
	quiet := []unix.PollFd{{Fd: int32(watch), Events: unix.POLLIN}}
	if has, known := HasReader(p[1]); !has || !known || Poll(quiet, 0) != 0 {
		t.Fatal("there is a reader, and it does not show")
	}
	unix.Close(p[0])
	if Poll(quiet, testkit.Patience) != 1 {
		t.Fatal("nothing tells of the reader's end")
	}
	DrainWatch(watch)
	testkit.Until(t, "the reader to be gone", func() bool { has, known := HasReader(p[1]); return known && !has })
	if _, known := HasReader(-1); known {
		t.Error("something is known of a pipe that cannot be opened")
	}
}
