package share

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/session"
)

// A server lives on for those that have ended. One whose session has fallen asleep was idle for long enough. Seen to live for ten
// minutes after the last one slept.
func TestLinger(t *testing.T) {
	const linger = time.Hour
	for name, c := range map[string]struct {
		ends, sleeps int
		lives        bool
	}{
		"one ends": {ends: 1, lives: true}, "one sleeps": {sleeps: 1}, "all sleep": {sleeps: 3}, "one ends and others sleep": {ends: 1, sleeps: 2, lives: true},
	} {
		h := newHost(t)
		h.o.Linger = linger
		pipeServer(t, h)
		for n := range c.ends + c.sleeps {
			f, peer := finderBefore(t)
			member := connect(t, h)
			h.takeHello(member)
			if n == 0 {
				hears(h, member, helloLine)
				h.deliver(h.mux.FromServer([]byte(welcomeLine)))
			}
			_ = unix.Close(member.conn)
			member.conn = peer
			if n < c.ends {
				f.HangUp()
			} else {
				f.Sleep()
			}
			h.leave(member)
			member.conn = -1
		}
		if left := time.Until(h.lingerAt); h.lingerAt.IsZero() || (left > linger/2) != c.lives {
			t.Errorf("%s: it lives for %v", name, left)
		}
	}
}

// The runtime directory may be removed while sessions are attached. Seen to wake up 20 times a second from then on.
func TestUnlistedHost(t *testing.T) {
	h := newHost(t)
	h.o.Linger = time.Hour
	runtime := t.TempDir()
	dir, err := session.Open(os.Getuid(), runtime)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	h.place = dir.Place("k")
	pipeServer(t, h)
	c := connect(t, h)
	h.takeHello(c)
	if err := os.RemoveAll(runtime + "/mcp-tether"); err != nil {
		t.Fatal(err)
	}
	h.onTime(time.Now().Add(time.Minute))
	if wait := h.timeout(); wait != -1 {
		t.Errorf("it waits for %d ms", wait)
	}
	h.detach(c, nil)
	if wait := h.timeout(); wait < 0 || wait > 1000 {
		t.Errorf("nobody finds it any more, and it waits for %d ms", wait)
	}
}

// A last line may have no end. Seen to be dropped on both sides.
func TestLastLineWithoutEnd(t *testing.T) {
	const call, answer = `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":2,"result":{}}`
	for _, ends := range []string{"its output", "its session"} {
		h := newHost(t)
		h.o.EOFGrace = time.Hour
		stdin, stdout := pipeServer(t, h)
		theirs, ours, end := inputs["pipe"](t)
		c := connectInput(t, h, ours)
		h.takeHello(c)
		hears(h, c, helloLine)
		h.deliver(h.mux.FromServer([]byte(welcomeLine)))
		h.pass(time.Now())
		must(t)(unix.Write(theirs, []byte(call)))
		_ = end()
		for h.turn(t) > 0 {
		}
		got := make([]byte, 4<<10)
		if n := must(t)(unix.Read(stdin, got)); !strings.Contains(string(got[:n]), `"id":2,"method":"tools/call"`) {
			t.Fatalf("the server got %q", got[:n])
		}
		c.TakeOutbox()
		must(t)(unix.Write(stdout, []byte(answer)))
		if ends == "its output" {
			h.readServer()
			h.lastLine()
		} else {
			h.onServerEnd(0)
		}
		if got := string(c.TakeOutbox()); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"id":7`) {
			t.Errorf("the server ends %s, and the client gets %q", ends, got)
		}
	}
}

// What a session says last before it falls asleep reaches the server. Seen to be lost where the host has not read it by then.
func TestLastLineBeforeSleep(t *testing.T) {
	h := newHost(t)
	stdin, _ := pipeServer(t, h)
	theirs, ours, _ := inputs["pipe"](t)
	c := connectInput(t, h, ours)
	h.takeHello(c)
	must(t)(unix.Write(theirs, []byte(lastLine)))
	f, peer := finderBefore(t)
	closeAll([]int{c.conn})
	c.conn = peer
	f.Sleep()
	h.leave(c)
	c.conn = -1
	h.pass(time.Now())
	got := make([]byte, 1<<10)
	if n := must(t)(unix.Read(stdin, got)); string(got[:n]) != lastLine {
		t.Errorf("the server got %q", got[:n])
	}
}
