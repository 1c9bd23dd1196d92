package evidence

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

var (
	_ = testkit.Role("uses", usesRole)
	_ = testkit.Role("serves", servesRole)
)

// usesRole connects to an address, which is in its environment.
func usesRole() {
	c, err := net.Dial(os.Getenv("USERS_NETWORK"), os.Getenv("USERS_ADDRESS"))
	if err != nil {
		testkit.Fail(err.Error())
	}
	defer c.Close()
	testkit.Report("uses")
	testkit.Await()
}

// servesRole listens there, says where on its lifeline, and takes all connections unless it is not to.
func servesRole() {
	l, err := net.Listen(os.Getenv("USERS_NETWORK"), os.Getenv("USERS_ADDRESS"))
	if err != nil {
		testkit.Fail(err.Error())
	}
	for range len(os.Getenv("USERS_ACCEPTS")) {
		go func() {
			c, err := l.Accept()
			if err == nil {
				defer c.Close()
			}
			testkit.Await()
		}()
	}
	testkit.Report("serves")
	testkit.Say(l.Addr().String())
	testkit.Await()
}

// What listens has a user when a process outside is connected, also over IPv4 to an IPv6 socket, and before it was accepted.
func TestUsers(t *testing.T) {
	for _, c := range []struct {
		network, address, accepts string
	}{
		{"tcp", "127.0.0.1:0", "x"}, {"tcp", "[::]:0", "x"}, {"tcp", "0.0.0.0:0", "x"}, {"tcp", "127.0.0.1:0", ""},
		{"unix", filepath.Join(t.TempDir(), "s"), "x"}, {"unix", filepath.Join(t.TempDir(), "s"), ""}, {"unix", fmt.Sprintf("@users-%d", os.Getpid()), "x"},
	} {
		t.Run(c.network+" "+c.address+c.accepts, func(t *testing.T) {
			if c.network == "unix" {
				needPeers(t)
			}
			serves := testkit.Start(t, "serves", 1, nil, "USERS_NETWORK="+c.network, "USERS_ADDRESS="+c.address, "USERS_ACCEPTS="+c.accepts)
			at := serves.Line()
			at = at[:len(at)-1]
			if c.network == "tcp" {
				_, port, err := net.SplitHostPort(at)
				if err != nil {
					t.Fatal(err)
				}
				at = "127.0.0.1:" + port
			}
			listeners := []int{serves.PID}
			users := func(inside []int) map[int]int {
				t.Helper()
				users, err := Users(listeners, inside)
				if err != nil {
					t.Fatal(err)
				}
				return users
			}
			if found := users(listeners); len(found) > 0 {
				t.Errorf("nobody is connected: %v", found)
			}
			uses := testkit.Start(t, "uses", 1, nil, "USERS_NETWORK="+c.network, "USERS_ADDRESS="+at)
			testkit.Until(t, "a user", func() bool { return maps.Equal(users(listeners), map[int]int{serves.PID: uses.PID}) })
			if found := users(slices.Concat(listeners, []int{uses.PID})); len(found) > 0 {
				t.Errorf("a connection of its own session: %v", found)
			}
			if found, err := Users([]int{uses.PID}, []int{uses.PID}); err != nil || len(found) > 0 {
				t.Errorf("what only asks others is used: %v, %v", found, err)
			}
			uses.Stdin.Close()
			uses.Dead()
			testkit.Until(t, "no user", func() bool { return len(users(listeners)) == 0 })
		})
	}
}

// A name in the table of unix sockets is any process's word: a line that it forges there makes nobody a user.
func TestUsersForgedName(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	var st unix.Stat_t
	if err := unix.Fstat(pair[0], &st); err != nil {
		t.Fatal(err)
	}
	forger, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(forger)
	if err := unix.Bind(forger, &unix.SockaddrUnix{Name: fmt.Sprintf("@%d\n0: 0 0 0 1 %s %d %s\n", os.Getpid(), unixConnected, st.Ino, socket[:20])}); err != nil {
		t.Fatal(err)
	}
	if found, err := Users([]int{os.Getpid()}, []int{os.Getpid()}); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestParseUnixSocket(t *testing.T) {
	b := answer(attribute(unixDiagName, []byte("/run/x")...), attribute(unixDiagPeer, number32(99)...))
	b[unix.SizeofNlMsghdr+2] = stateConnected
	if got, want := parsed(t, b), (unixSocket{state: stateConnected, name: "/run/x", peer: 99, named: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := parsed(t, answer(attribute(unixDiagIcons, append(number32(5), number32(6)...)...))).waiting; !slices.Equal(got, []uint64{5, 6}) {
		t.Errorf("waiting: %v", got)
	}
	for name, b := range map[string][]byte{
		"nothing": answer(), "a part": answer([]byte{8, 0}), "too long": answer([]byte{255, 255, 2, 0}), "empty": answer([]byte{0, 0, 2, 0}),
		"short peer": answer(attribute(unixDiagPeer, 1)),
	} {
		if got := parsed(t, b); got.name != "" || got.peer != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// parsed is what a well-formed answer about socket 7 says.
func parsed(t *testing.T, b []byte) unixSocket {
	t.Helper()
	s, err := parseUnixSocket(b, 7)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
