package share

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// finderBefore is a finder that is connected to a host, and the host's end.
func finderBefore(t *testing.T) (f *Finder, host int) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f = &Finder{conn: ends[0], slot: 1, key: "k", class: className("c")}
	t.Cleanup(func() { f.HangUp(); _ = unix.Close(ends[1]) })
	return f, ends[1]
}

// What a host says decides where the session goes on. A host that ends without a word was killed.
func TestHear(t *testing.T) {
	for name, c := range map[string]struct {
		says *verdict
		want News
		slot int
		key  string
	}{
		"full": {&verdict{Next: nextFull}, News{Elsewhere: true}, 2, "k-" + className("c") + "-2"},
		"other": {&verdict{Next: nextOther, Class: className("d"), Why: "unlike"}, News{Elsewhere: true, Unread: []byte("x\n"), Why: "unlike"},
			1, "k-" + className("d")},
		"its own": {&verdict{Next: nextOther, Class: className("c"), Why: "roots"}, News{Elsewhere: true, Unread: []byte("x\n"), Why: "roots"}, 2, "k-" + className("c") + "-2"},
		"anew":    {&verdict{Next: nextAnew, Code: 3, Why: "ended"}, News{Ended: true, Code: 3, Why: "ended"}, 1, "k-" + className("c")},
		"over":    {&verdict{Code: 3, Why: "stopped"}, News{Code: 3, Why: "stopped"}, 1, "k-" + className("c")},
		"killed":  {nil, News{Lost: true}, 1, "k-" + className("c")},
	} {
		f, host := finderBefore(t)
		if n, ok := f.Hear(); ok || f.Conn() < 0 {
			t.Fatalf("%s: before a word: %+v", name, n)
		}
		var with []int
		if c.want.Unread != nil {
			with = []int{must(t)(noteDown(c.want.Unread))}
		}
		if c.says == nil {
			_ = unix.Shutdown(host, unix.SHUT_RDWR)
		} else if err := send(host, *c.says, with...); err != nil {
			t.Fatal(err)
		}
		n, ok := f.Hear()
		if !ok || !reflect.DeepEqual(n, c.want) {
			t.Errorf("%s: %+v, %t", name, n, ok)
		}
		if f.slot != c.slot || f.placeKey() != c.key || f.Conn() >= 0 {
			t.Errorf("%s: slot %d of %q, connection %d", name, f.slot, f.placeKey(), f.Conn())
		}
	}
}

// A client that needs another server takes along what the host has not acted upon, however long. It stays for the answers to
// what it has asked before, for a while. Seen to end with an error in each case.
func TestMisfitTakesItsLinesAlong(t *testing.T) {
	for _, waits := range []string{"for nothing", "for an answer", "in vain"} {
		h := newHost(t)
		h.o.EOFGrace = time.Hour
		first := connect(t, h)
		h.greet(first)
		_, stdout := pipeServer(t, h)
		hears(h, first, helloLine)
		odd := connect(t, h)
		h.greet(odd)
		f, peer := finderBefore(t)
		odd.conn = peer
		if waits != "for nothing" {
			hears(h, odd, strings.Replace(helloLine, `"id":0`, `"id":5`, 1))
		}
		const modern = `{"id":6,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		unread := modern + "\n" + strings.Repeat("more", 1<<20)
		odd.unread = append(odd.unread, unread...)
		h.lines(odd)
		h.carryOut()
		if waits != "for nothing" {
			if n, ok := f.Hear(); ok {
				t.Fatalf("before the answer: %+v", n)
			}
		}
		switch waits {
		case "for an answer":
			must(t)(unix.Write(stdout, []byte(welcomeLine+"\n")))
			h.readServer()
			h.carryOut()
		case "in vain":
			h.onTime(time.Now().Add(2 * time.Hour))
			if n, ok := f.Hear(); !ok || n.Elsewhere || n.Code != exitFailure || !strings.Contains(n.Why, "begun with a handshake") {
				t.Errorf("%+v, %t", n, ok)
			}
			continue
		}
		if n, ok := f.Hear(); !ok || !n.Elsewhere || string(n.Unread) != unread {
			t.Errorf("it waits %s: %t, elsewhere %t with %d bytes, why %q", waits, ok, n.Elsewhere, len(n.Unread), n.Why)
		}
	}
}

// The runtime directory may be removed while a session runs. Seen to leave sessions that could not be woken any more.
func TestRemovedDirectory(t *testing.T) {
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	f, err := NewFinder([]string{"mcp-tether", "run", "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(runtime + "/mcp-tether"); err != nil {
		t.Fatal(err)
	}
	if started, err := f.tryStart(); started || err != nil {
		t.Fatalf("without its directory: %t, %v", started, err)
	}
	lock, err := f.place().Lock()
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Remove()
}
