package testkit

import (
	"testing"

	"golang.org/x/sys/unix"
)

// WithFiles does something while no descriptor can be had from a number on: none at all if limit is 0. The limit is that of
// the whole process, so no test may run beside it.
func WithFiles(t testing.TB, limit uint64, do func()) {
	t.Helper()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: files.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
			t.Error(err)
		}
	}()
	do()
}

// ToggleFiles does something while files can be opened now and then.
func ToggleFiles(t testing.TB, do func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			for _, n := range []uint64{0, limit.Max} {
				_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: limit.Max}, nil)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	do()
}
