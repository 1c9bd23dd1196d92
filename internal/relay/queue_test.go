package relay

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	rootsAsked = `{"jsonrpc":"2.0","id":0,"method":"roots/list"}` + "\n"
	rootsGiven = `{"jsonrpc":"2.0","id":0,"result":{"roots":[{"uri":"file:///a"}]}}` + "\n"
	rootsKept  = `{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no"}}` + "\n"
	call       = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read"}}` + "\n"
	called     = `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n"
	lateAnswer = `{"jsonrpc":"2.0","id":1,"result":{"model":"m"}}` + "\n"
)

// renamed is a question as the client sees it, or its answer, by the number among all that servers have asked.
func renamed(line string, n int) string {
	for _, id := range []string{"0", "2"} {
		line = strings.Replace(line, `"id":`+id, fmt.Sprintf(`"id":"mcp-tether:%d"`, n), 1)
	}
	return line
}

func pongOf(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n", math.MaxInt32-n)
}

// rooted has the server ask for the client's roots at its start, and fall asleep.
func rooted(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, false)
	s.shakeHands()
	s.write(s.serverOut, rootsAsked)
	s.write(s.toRelay, rootsGiven)
	s.reads(s.fromRelay, rootsAsked)
	s.reads(s.serverIn, rootsGiven)
	s.fallAsleep()
	return s
}

// wakes has a client's message start another server, which answers the handshake.
func (s *stage) wakes(message string) {
	s.t.Helper()
	s.tells(s.write(s.toRelay, message), Event{Kind: ClientWrote})
	s.connect()
	s.tells(s.relay.Restore())
	s.tells(s.write(s.serverOut, initializeResult), Event{Kind: Answered})
	s.reads(s.serverIn, initialize+initialized)
}

// A server that asks again before it is ready is waited for again.
func TestWakeWaitsForRootsThatAreAskedForAgain(t *testing.T) {
	again := strings.Replace(rootsAsked, `"id":0`, `"id":2`, 1)
	given := strings.Replace(rootsGiven, `"id":0`, `"id":2`, 1)
	for name, when := range map[string]int{"before the first pong": 0, "while it settles": 1, "before the last pong": 2} {
		t.Run(name, func(t *testing.T) {
			s := rooted(t)
			s.wakes(call)
			if why := s.relay.Lacks(); !strings.Contains(why, "roots") {
				t.Errorf("it lacks %q", why)
			}
			s.write(s.serverOut, rootsAsked)
			s.write(s.toRelay, renamed(rootsGiven, 2))
			asks := func(now int) string {
				if now == when {
					return again
				}
				return ""
			}
			s.tells(s.write(s.serverOut, asks(0)+pongOf(1)))
			s.tells(s.write(s.serverOut, asks(1)))
			s.tells(s.relay.PauseOver())
			s.tells(s.write(s.serverOut, asks(2)+pongOf(2)))
			s.reads(s.fromRelay, renamed(rootsAsked, 2)+renamed(again, 3))
			if got := s.read(s.serverIn); strings.Contains(got, call) {
				t.Fatalf("it got the call before the roots: %q", got)
			}
			s.tells(s.write(s.toRelay, renamed(given, 3)))
			s.tells(s.write(s.serverOut, pongOf(3)))
			s.tells(s.relay.PauseOver())
			s.tells(s.write(s.serverOut, pongOf(4)), Event{Kind: Restored})
			if got := s.read(s.serverIn); !strings.HasSuffix(got, call) {
				t.Errorf("it got %q", got)
			}
		})
	}
}

// The answer that a client still owes to the last server reaches no other, in whatever state that is, and wakes none.
func TestLateAnswersReachNobody(t *testing.T) {
	const (
		takenBack = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"
		consent   = `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"delete all?"}}` + "\n"
		asked     = `{"jsonrpc":"2.0","id":"mcp-tether:2","method":"elicitation/create","params":{"message":"delete all?"}}` + "\n"
		yes       = `{"jsonrpc":"2.0","id":"mcp-tether:2","result":{"action":"accept"}}` + "\n"
		delivered = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}` + "\n"
	)
	late := map[string]int{"asleep": 0, "waking": 1, "awake": 2, "asked": 3}
	for name, when := range late {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.shakeHands()
			s.write(s.serverOut, serverAsks+takenBack)
			s.reads(s.fromRelay, serverAsks+takenBack)
			s.fallAsleep()
			answer := func(now int) {
				t.Helper()
				if now == when {
					s.tells(s.write(s.toRelay, lateAnswer))
				}
			}
			answer(0)
			s.tells(s.write(s.toRelay, call), Event{Kind: ClientWrote})
			s.connect()
			s.relay.Restore()
			answer(1)
			s.tells(s.write(s.serverOut, initializeResult), Event{Kind: Answered}, Event{Kind: Restored})
			answer(2)
			s.write(s.serverOut, consent[:9])
			s.write(s.serverOut, consent[9:])
			question, reply := asked, yes
			s.reads(s.fromRelay, question)
			answer(3)
			s.reads(s.serverIn, initialize+initialized+call)
			s.tells(s.write(s.toRelay, reply[:9]))
			s.tells(s.write(s.toRelay, reply[9:]))
			s.reads(s.serverIn, delivered)
			s.tells(s.write(s.serverOut, called))
			s.fallAsleep()
		})
	}
}

// A ping tells a server nothing and asks nothing of it: the relay answers in its place, and no server is started. Nor
// is one started by messages about requests that no server has.
// Seen to fail where pings are not answered here, and where strays count.
func TestSleepIsNotDisturbed(t *testing.T) {
	eachTransport(t, func(s *stage) {
		s.shakeHands()
		s.fallAsleep()
		const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}` + "\n"
		s.tells(s.write(s.toRelay, ping+cancelled+lateAnswer+progress+"\n \n"+call[:10]))
		s.reads(s.fromRelay, pong)
		s.tells(s.write(s.toRelay, call[10:]), Event{Kind: ClientWrote})
		s.tells(s.write(s.toRelay, ping), Event{Kind: ClientWrote})
		s.reads(s.fromRelay, pong)
		s.connect()
		s.relay.Restore()
		s.write(s.serverOut, initializeResult)
		s.reads(s.serverIn, initialize+initialized+call)
	})
}

// A call that is cancelled while it waits reaches no server, nor does its cancellation. If nothing else waits, none is started.
func TestCancelledCallsLeaveTheQueue(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.fallAsleep()
	s.tells(s.write(s.toRelay, call), Event{Kind: ClientWrote})
	if s.tells(s.write(s.toRelay, cancelled)); s.relay.ClientWaits() {
		t.Error("something waits")
	}
	s.tells(s.write(s.toRelay, call), Event{Kind: ClientWrote})
	s.connect()
	s.tells(s.relay.Restore())
	s.tells(s.write(s.toRelay, cancelled+list))
	s.write(s.serverOut, initializeResult)
	s.reads(s.serverIn, initialize+initialized+list)
}

// Without a handshake a ping is like any request.
func TestPingWakesAStatelessServer(t *testing.T) {
	s := newStage(t, false)
	s.askModern()
	s.fallAsleep()
	s.tells(s.write(s.toRelay, ping), Event{Kind: ClientWrote})
}

// The last message may lack its newline, and wakes a server all the same. What wakes none ends with the client.
func TestLastMessageWithoutNewline(t *testing.T) {
	for text, want := range map[string][]Event{
		strings.TrimSuffix(call, "\n"): {{Kind: ClientClosed}, {Kind: ClientWrote}},
		lateAnswer:                     {{Kind: ClientClosed}},
	} {
		s := newStage(t, false)
		s.shakeHands()
		s.fallAsleep()
		s.tells(s.write(s.toRelay, text), want[:0]...)
		s.must(unix.Close(s.toRelay))
		s.tells(s.settle(), want...)
		if waits := len(want) > 1; s.relay.ClientWaits() != waits {
			t.Errorf("%q waits: %t", text, !waits)
		}
	}
}

// The client has closed its end before the server is there that its last message is for. That server reads the end as soon as
// the session ends, without another byte from anywhere.
func TestEndBehindTheLastMessage(t *testing.T) {
	s := newStage(t, false)
	s.askModern()
	s.fallAsleep()
	s.tells(s.write(s.toRelay, modernList), Event{Kind: ClientWrote})
	s.must(unix.Close(s.toRelay))
	s.tells(s.settle(), Event{Kind: ClientClosed}, Event{Kind: ClientWrote})
	s.connect()
	s.tells(s.relay.Restore(), Event{Kind: Unasked})
	s.relay.Finish()
	s.reads(s.serverIn, modernList+"EOF")
}

// For a server that is not there, the relay reads no more than it may keep: the rest stays with the client.
func TestQueueIsBounded(t *testing.T) {
	s := newStage(t, false)
	s.shakeHands()
	s.fallAsleep()
	s.must(unix.SetNonblock(s.toRelay, true))
	many, sent := strings.Repeat(call, 1000), ""
	for range 100 {
		n, _ := unix.Write(s.toRelay, []byte(many))
		sent += many[:max(n, 0)]
		s.settle()
	}
	if held := s.relay.mux.Held() + int64(s.relay.client.Unfinished()); held > maxMessage+oneRead {
		t.Errorf("%d bytes are kept", held)
	}
	s.connect()
	s.relay.Restore()
	s.write(s.serverOut, initializeResult)
	got := strings.TrimPrefix(s.read(s.serverIn), initialize+initialized)
	for n := -1; n != 0; {
		s.settle()
		more := s.read(s.serverIn)
		n = len(more)
		got += more
	}
	if sent = sent[:strings.LastIndexByte(sent, '\n')+1]; got != sent {
		t.Errorf("%d bytes of %d have come", len(got), len(sent))
	}
}
