package share

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A server lives on from when its last session has left. A client that needs another server does not lengthen that: seen to keep
// an empty server for ever, with a new client every few minutes.
func TestMisfitsDoNotLengthenLinger(t *testing.T) {
	h := newHost(t)
	h.o.Linger = time.Hour
	pipeServer(t, h)
	first := connect(t, h)
	h.greet(first)
	hears(h, first, helloLine)
	h.mux.FromServer([]byte(welcomeLine))
	h.detach(first, nil)
	want := h.lingerAt
	if want.IsZero() {
		t.Fatal("it does not linger")
	}
	odd := connect(t, h)
	h.greet(odd)
	hears(h, odd, strings.Replace(helloLine, "2025-11-25", "2024-11-05", 1))
	h.carryOut()
	if h.clients[odd.id] != nil || !h.lingerAt.Equal(want) {
		t.Errorf("gone %t; it lingers until %v, and before until %v", h.clients[odd.id] == nil, h.lingerAt, want)
	}
}

// A client whose kind of handshake another host serves goes there, before a server is started for it. Seen to start another one
// for each client that came after the first host of all had ended.
func TestServedElsewhere(t *testing.T) {
	for _, there := range []bool{true, false} {
		h := newHost(t)
		h.server.pid, h.server.in = 0, -1
		h.ending = true // No server is to be started.
		c := connect(t, h)
		h.greet(c)
		f, peer := finderBefore(t)
		f.class, c.conn = "", peer
		if class := h.mux.ClassOf([]byte(helloLine)); there {
			fd, err := h.sibling(class).Listen()
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
		}
		hears(h, c, helloLine)
		h.carryOut()
		n, ok := f.Hear()
		if ok != there || n.Elsewhere != there || there && (string(n.Unread) != helloLine+"\n" || f.class == "") {
			t.Errorf("a host of its class is there: %t; it hears %+v, %t", there, n, ok)
		}
	}
}
