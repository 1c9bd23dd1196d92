package relay

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Bytes pass as they are, whatever they say, and each side's end reaches the other. Both get whole lines.
func TestRelayPasses(t *testing.T) {
	eachTransport(t, func(s *stage) {
		fromServer, fromClient := "", ""
		for _, text := range []string{list, "no JSON\n", "\xff\x00\n\n", `{"id":3,"met`, `hod":"x"}` + "\r\n", "[]", "\n[", "\n"} {
			s.tells(s.write(s.toRelay, text))
			fromClient = s.readsLines(s.serverIn, fromClient+text)
			s.tells(s.write(s.serverOut, text))
			fromServer = s.readsLines(s.fromRelay, fromServer+text)
		}
		_ = unix.Shutdown(s.toRelay, unix.SHUT_WR) // a socket; the end of a pipe is closed
		if s.toRelay != s.fromRelay {
			_ = unix.Close(s.toRelay)
		}
		s.tells(s.settle(), Event{Kind: ClientClosed})
		s.reads(s.serverIn, "EOF")
		s.tells(s.write(s.serverOut, listed))
		s.reads(s.fromRelay, listed)
		s.endServer()
		s.tells(s.settle(), Event{Kind: ServerClosed})
		for _, p := range s.relay.Polls() {
			if p.Fd >= 0 {
				t.Errorf("descriptor %d is still waited for", p.Fd)
			}
		}
		if s.relay.Disconnect(""); s.relay.server.In.fd >= 0 || s.relay.server.Out.fd >= 0 {
			t.Error("streams of a server that is gone are still open")
		}
	})
}

// readsLines reads the whole lines of a text, and returns the rest of it.
func (s *stage) readsLines(fd int, text string) string {
	s.t.Helper()
	end := strings.LastIndexByte(text, '\n') + 1
	s.reads(fd, text[:end])
	return text[end:]
}

// Used tells of messages that matter, and of nothing else.
func TestUsed(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	for name, c := range map[string]struct {
		fd   int
		text string
		used bool
	}{
		"nothing":           {s.toRelay, "", false},
		"an empty line":     {s.toRelay, "\n", false},
		"ping":              {s.toRelay, ping, false},
		"pong":              {s.serverOut, `{"id":5,"result":{}}` + "\n", false},
		"unknown answer":    {s.toRelay, `{"id":9,"result":{}}` + "\n", false},
		"unknown cancelled": {s.toRelay, cancelled, false},
		"request":           {s.toRelay, list, true},
		"notification":      {s.serverOut, serverSays, true},
	} {
		before := s.relay.Used()
		s.write(c.fd, c.text)
		if s.relay.Used().After(before) != c.used {
			t.Errorf("%s: used is %t", name, !c.used)
		}
	}
}

// A server with a handshake is ended and another one takes its place. The message that wakes it is not read before the
// new server has answered as the first one did. The client sees nothing of that.
func TestWakeWithHandshake(t *testing.T) {
	eachTransport(t, func(s *stage) {
		s.shakeHands()
		s.fallAsleep()
		s.tells(s.write(s.toRelay, list), Event{Kind: ClientWrote})
		s.tells(s.settle(), Event{Kind: ClientWrote}) // until it is acted upon
		s.connect()
		s.tells(s.relay.Restore())
		s.tells(s.settle())
		s.reads(s.serverIn, initialize)
		half := len(initializeResult) / 2
		s.tells(s.write(s.serverOut, serverSays+initializeResult[:half])) // What it says unasked proves nothing.
		s.reads(s.fromRelay, serverSays)
		s.reads(s.serverIn, "")
		if !s.relay.ClientWaits() {
			t.Fatal("the client's message does not wait")
		}
		s.tells(s.write(s.serverOut, initializeResult[half:]), Event{Kind: Answered}, Event{Kind: Restored})
		s.reads(s.serverIn, initialized+list)
		s.tells(s.write(s.serverOut, listed))
		s.reads(s.fromRelay, listed)
		s.fallAsleep()
	})
}

// MaySleep names what stands in the way of ending the server, unless that is a matter of a moment.
func TestMaySleep(t *testing.T) {
	const opened = `{"jsonrpc":"2.0","id":9,"method":"roots/list"}` + "\n"
	for name, c := range map[string]struct {
		do  func(s *stage)
		why string
	}{
		"request of the client":  {func(s *stage) { s.write(s.toRelay, list) }, "tools/list"},
		"request of the server":  {func(s *stage) { s.write(s.serverOut, opened) }, "roots/list"},
		"half of a message":      {func(s *stage) { s.write(s.toRelay, "{") }, ""},
		"half of an answer":      {func(s *stage) { s.write(s.serverOut, "{") }, ""},
		"client's unread bytes":  {func(s *stage) { _, _ = unix.Write(s.toRelay, []byte("\n")) }, ""},
		"server's unread bytes":  {func(s *stage) { _, _ = unix.Write(s.serverOut, []byte("\n")) }, ""},
		"what a client must get": {func(s *stage) { s.relay.client.Put([]byte("\n")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.shakeHands()
			if ok, why := s.relay.MaySleep(); !ok {
				t.Fatalf("it may not sleep to begin with: %q", why)
			}
			c.do(s)
			if ok, why := s.relay.MaySleep(); ok || !strings.Contains(why, c.why) || c.why == "" && why != "" {
				t.Errorf("%t, %q", ok, why)
			}
		})
	}
	s := newStage(t, false)
	if ok, why := s.relay.MaySleep(); ok || why == "" {
		t.Errorf("without any handshake: %t, %q", ok, why)
	}
}

// No new server is started before the client has all that the last one wrote: new output would come in between.
func TestNoWakeBeforeTheClientHasAll(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.relay.EndServer()
	filling := s.full(s.relay.client.Out.fd)
	s.tells(s.write(s.serverOut, "last words\n"))
	s.endServer()
	s.relay.Disconnect("")
	s.tells(s.write(s.toRelay, list))
	if got := s.read(s.fromRelay); len(got) != filling {
		t.Fatalf("%d bytes read, want %d", len(got), filling)
	}
	s.tells(s.settle(), Event{Kind: ClientWrote})
	s.reads(s.fromRelay, "last words\n")
}

// A process that outlives its server may hold the write end of the server's output. The relay does not hold the read end
// beyond the next server's start.
func TestConnectClosesTheLastServersOutput(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.relay.EndServer()
	s.relay.Disconnect("")
	kept := s.serverOut
	if _, err := unix.Write(kept, []byte("\n")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("the last server's output is still read: %v", err)
	}
}

// A message that is longer than the limit is reported, from either side; one of exactly that length is not.
func TestTooLong(t *testing.T) {
	for name, end := range map[string]func(*stage) int{
		"client": func(s *stage) int { return s.toRelay },
		"server": func(s *stage) int { return s.serverOut },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.tells(s.write(end(s), strings.Repeat("x", maxMessage)+"\n"))
			events := s.write(end(s), strings.Repeat("x", maxMessage+1))
			if len(events) != 1 || events[0].Kind != TooLong || !strings.Contains(events[0].Text, "1000") {
				t.Errorf("events %v", events)
			}
			s.relay.Finish()
			s.tells(s.write(end(s), "x"))
		})
	}
}

// Back-pressure: while the client does not read, the relay takes no more than one buffer from the server. It loses none
// of it.
func TestSlowClientHoldsTheServerUp(t *testing.T) {
	eachTransport(t, func(s *stage) {
		s.must(unix.SetNonblock(s.serverOut, true))
		taken := 0
		for range 1000 {
			n, _ := unix.Write(s.serverOut, slices.Repeat([]byte("x\n"), 8<<10))
			taken += max(n, 0)
			s.settle()
		}
		if held := s.relay.client.Waiting(); held == 0 || held > 2*oneRead {
			t.Errorf("the relay holds %d bytes", held)
		}
		got := 0
		for n := -1; n != 0; {
			n = len(s.read(s.fromRelay))
			got += n
			s.settle()
		}
		if got != taken {
			t.Errorf("%d bytes of %d have come", got, taken)
		}
	})
}
