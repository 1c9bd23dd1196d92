package proc

import (
	"net"
	"os"
	"testing"

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
	var r Reader
	self := os.Getpid()
	if why := r.Reached(self, []int{self}); why != "" {
		t.Errorf("both ends within the tree: %s", why)
	}
	if why := r.Reached(self, nil); why == "" {
		t.Error("a connection to another tree was not seen")
	}
}
