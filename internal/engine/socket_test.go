package engine

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connected returns both ends of a connection as conns, and the descriptor of the first. Unless watched, the first one
// waits by Go's poller.
func connected(t *testing.T, watched bool) (near, far conn, fd int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var in *epollWatch
	if watched {
		if in, err = newEpollWatch(fds[0], unix.EPOLLIN|unix.EPOLLRDHUP); err != nil {
			t.Fatal(err)
		}
	}
	a, errA := newSocketWith(fds[0], in)
	b, errB := openSocket(fds[1])
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return conn{a}, conn{b}, fds[0]
}

// each runs a test with and without an epoll descriptor.
func each(t *testing.T, test func(t *testing.T, near, far conn)) {
	t.Helper()
	for name, watched := range map[string]bool{"watched": true, "without a descriptor": false} {
		t.Run(name, func(t *testing.T) {
			near, far, _ := connected(t, watched)
			test(t, near, far)
		})
	}
}

func TestSocketPassesMuchBothWays(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<19)
	each(t, func(t *testing.T, near, far conn) {
		var all sync.WaitGroup
		for from, to := range map[conn]conn{near: far, far: near} {
			all.Go(func() {
				if n, err := from.Write(data); n != len(data) || err != nil {
					t.Errorf("wrote %d bytes: %v", n, err)
				}
				if err := from.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if got, err := io.ReadAll(to); !bytes.Equal(got, data) || err != nil {
					t.Errorf("read %d bytes: %v", len(got), err)
				}
			})
		}
		all.Wait()
	})
}

func TestSocketCloseEndsWaits(t *testing.T) {
	each(t, func(t *testing.T, near, _ conn) {
		began, ended := make(chan struct{}, 2), make(chan error, 2)
		go func() {
			began <- struct{}{}
			_, err := near.Read(make([]byte, 1))
			ended <- err
		}()
		go func() {
			began <- struct{}{}
			_, err := near.Write(make([]byte, 64<<20)) // more than any socket holds
			ended <- err
		}()
		<-began
		<-began
		if err := near.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-ended; err == nil {
				t.Error("no error")
			}
		}
	})
}

func TestSocketDeadline(t *testing.T) {
	each(t, func(t *testing.T, near, _ conn) {
		if err := near.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A peer's read does not wake a goroutine that waits for the peer's writes. The control: it wakes Go's poller, which
// asks for both.
func TestSocketIsNotWokenByReaders(t *testing.T) {
	near, far, fd := connected(t, true)
	var ours int
	if err := near.in.raw.Control(func(fd uintptr) { ours = int(fd) }); err != nil {
		t.Fatal(err)
	}
	watch, control := watcher(t, ours, unix.EPOLLIN), watcher(t, fd, unix.EPOLLIN|unix.EPOLLOUT)
	happened(t, control) // it is writable from the start
	for _, step := range []struct {
		do                  func() error
		wakes, wakesControl bool
	}{
		{func() error { _, err := near.Write([]byte("request")); return err }, false, false},
		{func() error { _, err := far.Read(make([]byte, 7)); return err }, false, true},
		{func() error { _, err := far.Write([]byte("answer")); return err }, true, true},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := happened(t, watch); got != step.wakes {
			t.Errorf("woken: %t", got)
		}
		if got := happened(t, control); got != step.wakesControl {
			t.Errorf("Go's poller would be woken: %t", got)
		}
	}
}

// watcher watches a descriptor as Go's poller does.
func watcher(t *testing.T, fd int, events uint32) int {
	t.Helper()
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(ep) })
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events | unix.EPOLLET}); err != nil {
		t.Fatal(err)
	}
	return ep
}

func happened(t *testing.T, ep int) bool {
	t.Helper()
	n, err := unix.EpollWait(ep, make([]unix.EpollEvent, 4), 0)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}
