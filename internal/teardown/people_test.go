package teardown

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
)

var (
	_ = testkit.Role("host", hostRole)
	_ = testkit.Role("listener", listenerRole)
	_ = testkit.Role("user", userRole)
)

// socketName is the variable that says where a listener listens.
const socketName = "TEARDOWN_TEST_SOCKET"

// hostRole is the root of a session: it has a listener that has left its process group.
func hostRole() {
	testkit.Report("host")
	testkit.Spawn("listener", &syscall.SysProcAttr{Setpgid: true})
	testkit.Await()
}

// listenerRole takes whatever connects, and has a child.
func listenerRole() {
	l, err := net.Listen("unix", os.Getenv(socketName))
	if err != nil {
		testkit.Fail(err.Error())
	}
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	testkit.Report("listener")
	spawn("rest", nil)
	testkit.Await()
}

func userRole() {
	c, err := net.Dial("unix", os.Getenv(socketName))
	if err != nil {
		testkit.Fail(err.Error())
	}
	defer c.Close()
	testkit.Report("user")
	testkit.Await()
}

// A member that listens is kept with what it has started as long as a process outside is connected, whatever is asked how often.
func TestMembersInUse(t *testing.T) {
	peers := evidence.FindsPeers()
	testkit.Lacks(t, testkit.Kernel, peers != nil, fmt.Sprintf("sock_diag: %v", peers))
	socket := socketName + "=" + filepath.Join(t.TempDir(), "s")
	host := start(t, "host", 3, socket) // host, listener, its child
	listener, child := host.PIDs[1], host.PIDs[2]
	m := &Membership{Root: host.PID}
	m.expect(t, "nobody is connected", []int{listener, child}, nil)

	user := start(t, "user", 1, socket)
	becomes := func(m *Membership, kept int) {
		t.Helper()
		testkit.Until(t, "a look with other members", func() bool {
			_, k, err := m.Members()
			return err == nil && len(k) == kept
		})
	}
	becomes(m, 2)
	m.expect(t, "in use", nil, []int{listener, child})
	st, err := m.reader.Stat(listener)
	if why := m.Reason(st); err != nil || !IsPeoples(why) || !strings.HasPrefix(why, "in use by ") || !m.Used() {
		t.Errorf("it is kept because of %q, %v", why, err)
	}
	for name, none := range map[string]*Membership{
		"whatever asks":           {Root: host.PID, People: People{KeepNothing: true}},
		"the gateway":             {Root: host.PID, People: People{Above: []int{user.PID}}},
		"the server's group":      {Root: host.PID, People: People{Groups: [2]int{st.PGRP}}},
		"a connection of its own": {Root: os.Getpid()}, // The user is below it.
	} {
		members, kept, err := none.Members()
		if err != nil || len(kept) > 0 || len(members) < 2 || none.Used() {
			t.Errorf("%s: kept %v, members %v, %v", name, pids(kept), pids(members), err)
		}
	}

	settled := &Membership{Root: host.PID}
	becomes(settled, 2)
	settled.Settle()
	user.Stdin.Close()
	awaitExit(t, user.PID)
	becomes(m, 0)
	m.expect(t, "nobody is connected any more", []int{listener, child}, nil)
	if m.Used() {
		t.Error("it is still in use")
	}
	settled.expect(t, "what was in use when the session was over", nil, []int{listener, child})
}

// The first process of a browser decides about all below it, also once that has ended.
func TestMembersOfABrowser(t *testing.T) {
	st := func(pid, ppid int) proc.Stat {
		return proc.Stat{ID: proc.ID{PID: pid, Start: uint64(pid)}, PPID: ppid, State: 'S'}
	}
	m := &Membership{Root: 1, roles: map[int]role{}, People: People{whys: map[int]string{}}}
	m.remember(st(10, 1), driven, "")
	m.remember(st(20, 1), spared, BrowserReason)
	for _, p := range []struct {
		proc.Stat
		is  role
		why string
	}{{st(11, 10), driven, ""}, {st(12, 11), driven, ""}, {st(21, 20), spared, BrowserReason}, {st(22, 21), spared, BrowserReason}} {
		if is := m.judge(p.Stat); is != p.is || m.Reason(p.Stat) != p.why {
			t.Errorf("%d: %d because of %q, want %d, %q", p.PID, is, m.Reason(p.Stat), p.is, p.why)
		}
	}
	m.roles, m.whys = map[int]role{}, map[int]string{} // The next look finds orphans.
	for pid, want := range map[int]role{11: driven, 12: driven, 21: spared, 22: spared} {
		if is := m.judge(st(pid, 1)); is != want {
			t.Errorf("orphan %d: %d, want %d", pid, is, want)
		}
	}
	m.KeepNothing = true
	if is := m.judge(st(21, 20)); is != member {
		t.Errorf("with --keep-nothing: %d", is)
	}
}

func TestTops(t *testing.T) {
	st := func(pid, ppid int) proc.Stat { return proc.Stat{ID: proc.ID{PID: pid, Start: uint64(pid)}, PPID: ppid} }
	if got := pids(Tops([]proc.Stat{st(5, 1), st(6, 5), st(7, 6), st(9, 8)})); len(got) != 2 || got[0] != 5 || got[1] != 9 {
		t.Errorf("%v", got)
	}
}
