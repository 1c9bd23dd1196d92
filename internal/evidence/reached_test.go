package evidence

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A connection within a tree is no way in, also if one end is IPv4 and the other IPv6 with a mapped address. The kernel
// lists these ends in different tables.
func TestReachedWithinTreeMapped(t *testing.T) {
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		testkit.Need(t, false, "IPv6: "+err.Error())
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
	if why := Reached(self, []int{self}); why != "" {
		t.Errorf("both ends within the tree: %s", why)
	}
	if why := Reached(self, nil); why == "" {
		t.Error("a connection to another tree was not seen")
	}
}

// The name of a unix socket may have line ends. So any user can write a line into the table of unix sockets, about a
// socket of another process that does not listen.
func TestReachedForgedLine(t *testing.T) {
	if err := FindsPeers(); err != nil {
		testkit.Need(t, false, "sock_diag: "+err.Error())
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	defer unix.Close(pair[0])
	other, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	for _, about := range []int{pair[0], other} {
		var st unix.Stat_t
		forger, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err := errors.Join(err, unix.Fstat(about, &st)); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(forger)
		if err := unix.Bind(forger, &unix.SockaddrUnix{Name: fmt.Sprintf("@x\n0: 0 0 %s 1 01 %d", unixAccepts, st.Ino)}); err != nil {
			t.Fatal(err)
		}
	}
	if why := Reached(os.Getpid(), nil); why != "" {
		t.Errorf("by lines that a name has added: %s", why)
	}
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if why := Reached(os.Getpid(), nil); why == "" {
		t.Error("a listener was not seen")
	}
}
