package share

import (
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// finderBefore is a finder that is connected to a host, and the host's end.
func finderBefore(t *testing.T) (f *Finder, host int) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f = &Finder{conn: ends[0], slot: 1, key: "k", class: "c"}
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
		"other": {&verdict{Next: nextOther, Class: "d", Why: "unlike", Unread: []byte("x\n")}, News{Elsewhere: true, Unread: []byte("x\n"), Why: "unlike"},
			1, "k-" + className("d")},
		"its own": {&verdict{Next: nextOther, Class: "c", Why: "roots"}, News{Elsewhere: true, Why: "roots"}, 2, "k-" + className("c") + "-2"},
		"anew":    {&verdict{Next: nextAnew, Code: 3, Why: "ended"}, News{Ended: true, Code: 3, Why: "ended"}, 1, "k-" + className("c")},
		"over":    {&verdict{Code: 3, Why: "stopped"}, News{Code: 3, Why: "stopped"}, 1, "k-" + className("c")},
		"killed":  {nil, News{Lost: true}, 1, "k-" + className("c")},
	} {
		f, host := finderBefore(t)
		if n, ok := f.Hear(); ok || f.Conn() < 0 {
			t.Fatalf("%s: before a word: %+v", name, n)
		}
		if c.says == nil {
			_ = unix.Shutdown(host, unix.SHUT_RDWR)
		} else if err := send(host, *c.says); err != nil {
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

// A client that needs another server takes along what the host has not acted upon. One that has asked already goes with an
// error.
func TestMisfitTakesItsLinesAlong(t *testing.T) {
	for _, asked := range []bool{false, true} {
		h := newHost(t)
		first := connect(t, h)
		h.greet(first)
		pipeServer(t, h)
		hears(h, first, helloLine)
		f, peer := finderBefore(t)
		odd := connect(t, h)
		odd.conn = peer
		h.greet(odd)
		if odd.greeted {
			t.Fatal("greeted without a hello")
		}
		odd = connect(t, h)
		h.greet(odd)
		odd.conn = peer
		if asked {
			hears(h, odd, strings.Replace(helloLine, `"id":0`, `"id":5`, 1))
		}
		line := strings.Replace(helloLine, "2025-11-25", "2024-11-05", 1) + "\n"
		odd.unread = append(odd.unread, line+"more"...)
		h.lines(odd)
		n, ok := f.Hear()
		if !ok || n.Elsewhere == asked || !asked && string(n.Unread) != line+"more" || asked && n.Code != exitFailure {
			t.Errorf("asked %t: %+v, %t", asked, n, ok)
		}
	}
}
