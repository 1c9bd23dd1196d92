package evidence

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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
				var s Sockets
				users, err := s.Users(listeners, inside)
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
			if found, err := new(Sockets).Users([]int{uses.PID}, []int{uses.PID}); err != nil || len(found) > 0 {
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
	needPeers(t)
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
	if found, err := new(Sockets).Users([]int{os.Getpid()}, []int{os.Getpid()}); err != nil || len(found) > 0 {
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

// A daemon that takes no more connections, with thousands that wait, hides no user: of such a socket alone the kernel does not tell.
func TestUsersOfOneWithManyWaiting(t *testing.T) {
	needPeers(t)
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil || strings.HasPrefix(unix.ByteSliceToString(kernel.Release[:]), "5.") {
		t.Skip("Linux 5 does not tell of a socket for which so many wait") // docs/kernels.md
	}
	const many = 2_100
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur < many+100 {
		t.Skipf("needs %d descriptors, may have %d, %v", many+100, files.Cur, err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	serves := testkit.Start(t, "serves", 1, nil, "USERS_NETWORK=unix", "USERS_ADDRESS="+socket, "USERS_ACCEPTS=")
	serves.Line()
	for n := range many {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
			t.Skipf("only %d may wait (net.core.somaxconn): %v", n, err)
		}
	}
	users, err := new(Sockets).Users([]int{serves.PID}, []int{serves.PID})
	if err != nil || users[serves.PID] != os.Getpid() {
		t.Errorf("%v, %v", users, err)
	}
}

// The kernel's answer about all sockets comes in parts, and counts as far as it can be read.
func TestAddUnixSockets(t *testing.T) {
	one := answer(attribute(unixDiagPeer, number32(99)...))
	done := answer()
	binary.NativeEndian.PutUint16(done[4:], unix.NLMSG_DONE)
	refused := answer()
	binary.NativeEndian.PutUint16(refused[4:], unix.NLMSG_ERROR)
	for name, c := range map[string]struct {
		part  []byte
		found int
		over  bool
		fails bool
	}{
		"a part": {one, 1, false, false}, "the last part": {slices.Concat(one, done), 1, true, false}, "nothing": {nil, 0, false, false},
		"cut short": {slices.Concat(one, one[:len(one)-1]), 1, true, false}, "a refusal": {refused, 0, true, true},
	} {
		all := map[uint64]unixSocket{}
		over, err := addUnixSockets(all, c.part)
		if over != c.over || (err != nil) != c.fails || len(all) != c.found || c.found > 0 && all[7].peer != 99 {
			t.Errorf("%s: %v, over %t, %v", name, all, over, err)
		}
	}
}
