package evidence

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// A connection within a tree is no way in, also if one end is IPv4 and the other IPv6 with a mapped address. The kernel
// lists these ends in different tables.
func TestReachedWithinTreeMapped(t *testing.T) {
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		testkit.Lacks(t, testkit.Kernel, true, "IPv6: "+err.Error())
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := net.Dial("tcp4", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	l.Close()
	self := os.Getpid()
	if why := Reached([]int{self}, []int{self}); why != "" {
		t.Errorf("both ends within the tree: %s", why)
	}
	if why := Reached([]int{self}, nil); why == "" {
		t.Error("a connection to another tree was not seen")
	}
}

// The name of a unix socket may have line ends. So any user can write a line into the table of unix sockets. It hides no listener of
// another process.
func TestReachedForgedLine(t *testing.T) {
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	var st unix.Stat_t
	if err := errors.Join(err, unix.Fstat(listener, &st)); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	for n := range 20 { // some of them stand before the true line
		forger, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(forger)
		if err := unix.Bind(forger, &unix.SockaddrUnix{Name: fmt.Sprintf("@%d-%d\n0: 0 0 0 1 %s %d\n", os.Getpid(), n, unixConnected, st.Ino)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrUnix{}), unix.Listen(listener, 1)); err != nil {
		t.Fatal(err)
	}
	if why := Reached([]int{os.Getpid()}, nil); why == "" {
		t.Error("the listener was not seen")
	}
}

// What takes datagrams or reads a FIFO can be reached without a connection. What only asks others cannot.
func TestReachedWithoutConnection(t *testing.T) {
	socket := func(family, kind int, then func(fd int) error) func(*testing.T) int {
		return func(t *testing.T) int {
			t.Helper()
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
			if errors.Is(err, unix.EAFNOSUPPORT) {
				testkit.Lacks(t, testkit.Kernel, true, "such a socket: "+err.Error())
			}
			if err == nil {
				err = then(fd)
			}
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}
	}
	fifo := func(mode int) func(t *testing.T) int {
		return func(t *testing.T) int {
			t.Helper()
			name := filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(name, 0o600); err != nil {
				t.Fatal(err)
			}
			// Linux opens one for writing without a reader if it is opened for both, so the control has a reader for a moment.
			both, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(both)
			fd, err := unix.Open(name, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}
	}
	local := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	for name, c := range map[string]struct {
		open func(*testing.T) int
		want bool
	}{
		"UDP":               {socket(unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error { return unix.Bind(fd, local) }), true},
		"UDP6":              {socket(unix.AF_INET6, unix.SOCK_DGRAM, func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet6{}) }), true},
		"UDP, to a peer":    {socket(unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error { return unix.Connect(fd, &unix.SockaddrInet4{Port: 53, Addr: local.Addr}) }), false},
		"unix datagrams":    {socket(unix.AF_UNIX, unix.SOCK_DGRAM, func(fd int) error { return unix.Bind(fd, &unix.SockaddrUnix{}) }), true},
		"the same, unnamed": {socket(unix.AF_UNIX, unix.SOCK_DGRAM, func(int) error { return nil }), false},
		"unix, listening": {socket(unix.AF_UNIX, unix.SOCK_STREAM, func(fd int) error {
			return errors.Join(unix.Bind(fd, &unix.SockaddrUnix{}), unix.Listen(fd, 1))
		}), true},
		"FIFO":             {fifo(unix.O_RDONLY), true},
		"FIFO, written to": {fifo(unix.O_WRONLY), false},
	} {
		t.Run(name, func(t *testing.T) {
			defer unix.Close(c.open(t))
			if why := Reached([]int{os.Getpid()}, []int{os.Getpid()}); (why != "") != c.want {
				t.Errorf("reached: %q, want %t", why, c.want)
			}
		})
	}
}
