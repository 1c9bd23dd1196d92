package relay

import (
	"strings"
	"testing"
)

const (
	ping = `{"jsonrpc":"2.0","id":5,"method":"ping"}` + "\n"
	pong = `{"jsonrpc":"2.0","id":5,"result":{}}` + "\n"

	serverAsks = `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}` + "\n"
	serverSays = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"bye"}}` + "\n"
)

// Answers and notifications of a server that is being ended pass. Its requests do not: their answers would reach
// another server.
func TestGateWithholdsRequests(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.relay.EndServer()
	s.tells(s.write(s.serverOut, serverSays+serverAsks[:20]))
	s.tells(s.write(s.serverOut, serverAsks[20:]+serverSays), Event{Withheld, "sampling/createMessage"})
	s.reads(s.fromRelay, serverSays+serverSays)
	s.relay.Disconnect()
	s.tells(s.write(s.serverOut, serverAsks+"no JSON\n"), Event{Withheld, "sampling/createMessage"})
	s.reads(s.fromRelay, "no JSON\n")
}

// A line that is too long is dropped to its end. Its second half would be no message.
func TestGateDropsALongLine(t *testing.T) {
	for name, finish := range map[string]bool{"while it ends": false, "then the session ends": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.shakeHands()
			s.relay.EndServer()
			events := s.write(s.serverOut, strings.Repeat("x", maxMessage+1))
			if len(events) != 1 || events[0].Kind != RestoreFailed {
				t.Errorf("events %v", events)
			}
			if finish {
				s.relay.Finish()
			}
			s.tells(s.write(s.serverOut, "x"))
			s.tells(s.write(s.serverOut, "x\n"+serverSays))
			s.reads(s.fromRelay, serverSays)
		})
	}
}

// The end of a line may still be in the server's stream when the server is forgotten, because the client reads slowly. It
// is no line of its own.
func TestGateKeepsALineInOnePieceBeyondTheServer(t *testing.T) {
	for name, c := range map[string]struct{ begin, end, want string }{
		"a line":          {serverSays[:20], serverSays[20:], serverSays + serverSays},
		"a line too long": {strings.Repeat("x", maxMessage+1), "x\n", serverSays},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.shakeHands()
			s.relay.EndServer()
			s.full(s.relay.down.to.fd)
			s.write(s.serverOut, serverSays+c.begin)
			s.tells(s.write(s.serverOut, c.end))
			s.endServer()
			s.relay.Disconnect()
			for range 3 {
				got := strings.TrimLeft(s.read(s.fromRelay), "\n")
				s.settle()
				if got += s.read(s.fromRelay); got != "" && got != c.want {
					t.Errorf("the client reads %q, want %q", got, c.want)
				}
			}
		})
	}
}

// A session may end while its server wakes. The client gets no answer to what is repeated, and no question that it could
// not answer any more.
func TestGateStaysWhenTheSessionEnds(t *testing.T) {
	t.Run("waking", func(t *testing.T) {
		s := newStage(t, false)
		s.shakeHands()
		s.fallAsleep()
		s.write(s.toRelay, call)
		s.connect()
		s.relay.Restore()
		s.relay.Finish()
		s.tells(s.write(s.serverOut, welcome+serverAsks+serverSays), Event{Kind: Answered}, Event{Withheld, "sampling/createMessage"})
		s.reads(s.fromRelay, serverSays)
	})
	t.Run("waiting for a ping", func(t *testing.T) {
		s := rooted(t)
		s.wakes(call)
		s.write(s.serverOut, rootsAsked)
		s.write(s.toRelay, rootsGiven)
		s.reads(s.fromRelay, rootsAsked)
		s.relay.Finish()
		s.tells(s.write(s.serverOut, pongOf(1)+serverSays))
		s.reads(s.fromRelay, serverSays)
	})
	t.Run("given up", func(t *testing.T) {
		s := newStage(t, false)
		s.shakeHands()
		s.fallAsleep()
		s.write(s.toRelay, call)
		s.connect()
		s.relay.Restore()
		s.relay.EndServer()
		s.relay.Finish()
		s.tells(s.write(s.serverOut, welcome+serverSays), Event{Kind: Answered})
		s.reads(s.fromRelay, serverSays)
	})
	t.Run("subscribing", func(t *testing.T) {
		s := subscribed(t)
		s.fallAsleep()
		s.write(s.toRelay, request("7"))
		s.connect()
		s.relay.Restore()
		s.relay.Finish()
		s.tells(s.write(s.serverOut, agreed+listened), Event{Kind: Answered})
		s.reads(s.fromRelay, listened) // There is no next server for it.
	})
}

// A server may die in the middle of an answer. The client gets no half of it, but what has only lost its newline is whole. Of a long
// line the beginning has passed: a newline ends it.
func TestHalfAnAnswerDoesNotReachTheClient(t *testing.T) {
	long := `{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("x", heldLine)
	for name, c := range map[string]struct{ output, want string }{
		"half":                {serverSays + called[:20], serverSays + refusal("7")},
		"all but the newline": {strings.TrimSuffix(called, "\n"), called},
		"long":                {long, long + "\n" + refusal("7")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.relay.max, s.relay.fromServer.Max = 2*heldLine, 2*heldLine
			s.shakeHands()
			s.write(s.toRelay, call)
			var got strings.Builder
			for out := c.output; out != ""; {
				n := min(len(out), 32<<10)
				s.tells(s.write(s.serverOut, out[:n]))
				out = out[n:]
				got.WriteString(s.read(s.fromRelay))
			}
			s.endServer()
			s.relay.Crashed("no server")
			for range 6 { // The client's pipe takes a part of a long line at a time.
				s.settle()
				got.WriteString(s.read(s.fromRelay))
			}
			s.relay.Disconnect()
			s.settle()
			if got.WriteString(s.read(s.fromRelay)); got.String() != c.want {
				t.Errorf("%d bytes came, want %d: %.100q", got.Len(), len(c.want), got.String()[max(0, got.Len()-100):])
			}
		})
	}
}
