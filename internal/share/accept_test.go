package share

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
)

// A connection for which there is no descriptor is accepted later.
func TestAcceptWithoutDescriptors(t *testing.T) {
	h := &host{polled: polled{gateway: -1}, joined: joined{clients: map[mux.Client]*client{}, mux: mux.New()}}
	h.server.reset()
	h.listener = listenAt(t, filepath.Join(t.TempDir(), "socket"))
	var err error
	if h.signals, err = proc.Catch(0); err != nil {
		t.Fatal(err)
	}

	restore := noDescriptors(t)
	h.step()
	restore()
	if len(h.clients) != 0 {
		t.Errorf("%d clients", len(h.clients))
	}
	for end := time.Now().Add(testkit.Patience); len(h.clients) == 0 && time.Now().Before(end); {
		h.step()
	}
	if len(h.clients) != 1 {
		t.Errorf("%d clients once there are descriptors", len(h.clients))
	}
	for _, c := range h.clients {
		h.drop(c)
	}
}

// listenAt makes a listener on which a connection waits.
func listenAt(t *testing.T, path string) int {
	t.Helper()
	fd := must(t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return fd
}

// noDescriptors lowers the limit to what is open. The test must not run beside others.
func noDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	free := f.Fd() // the kernel gives out the lowest number
	f.Close()
	lowered := unix.Rlimit{Cur: uint64(free), Max: before.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lowered); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
}

// must ends the test upon an error.
func must(t *testing.T) func(int, error) int {
	return func(n int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}
