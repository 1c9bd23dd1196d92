package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A new server is told the log level and the subscriptions of the last one, in order, and nothing before it has answered. The client learns
// that what it has subscribed to may have changed, and nothing else.
func TestRestoreTellsStateAgain(t *testing.T) {
	const (
		level      = `{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"debug"}}` + "\n"
		subscribe  = `{"jsonrpc":"2.0","id":6,"method":"resources/subscribe","params":{"uri":"file:///a"}}` + "\n"
		done       = `{"jsonrpc":"2.0","id":5,"result":{}}` + "\n"
		subscribed = `{"jsonrpc":"2.0","id":6,"result":{}}` + "\n"

		levelAgain     = `{"jsonrpc":"2.0","id":2147483646,"method":"logging/setLevel","params":{"level":"debug"}}` + "\n"
		subscribeAgain = `{"jsonrpc":"2.0","id":2147483645,"method":"resources/subscribe","params":{"uri":"file:///a"}}` + "\n"
		updated        = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}` + "\n"
	)
	s := newStage(t, false)
	s.shakeHands()
	s.write(s.toRelay, level+subscribe)
	s.write(s.serverOut, done+subscribed)
	s.reads(s.serverIn, level+subscribe)
	s.reads(s.fromRelay, done+subscribed)
	s.fallAsleep()
	s.tells(s.write(s.toRelay, list), Event{Kind: ClientWrote})
	s.connect()
	s.tells(s.relay.Restore())
	s.reads(s.serverIn, initialize)
	s.tells(s.write(s.serverOut, initializeResult), Event{Kind: Answered})
	s.reads(s.serverIn, initialized+levelAgain+subscribeAgain)
	s.tells(s.write(s.serverOut, `{"jsonrpc":"2.0","id":2147483646,"result":{}}`+"\n"))
	s.reads(s.serverIn, "")
	s.tells(s.write(s.serverOut, `{"jsonrpc":"2.0","id":2147483645,"result":{}}`+"\n"), Event{Kind: Restored})
	s.reads(s.serverIn, list)
	s.reads(s.fromRelay, updated)
}

// A server that does not answer as the last one did cannot take its place. The client sees nothing of that answer, and
// its own message stays.
func TestRestoreFails(t *testing.T) {
	for name, c := range map[string]struct{ answer, why string }{
		"refuses":  {`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no licence"}}` + "\n", "no licence"},
		"too long": {strings.Repeat("x", maxMessage+1), "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			s.shakeHands()
			s.fallAsleep()
			s.tells(s.write(s.toRelay, list), Event{Kind: ClientWrote})
			s.connect()
			s.relay.Restore()
			events := s.write(s.serverOut, c.answer)
			last := events[len(events)-1]
			if last.Kind != RestoreFailed || !strings.Contains(last.Text, c.why) || slices.Contains(events, Event{Kind: Answered}) != (name == "refuses") {
				t.Errorf("events %v", events)
			}
			s.relay.EndServer()
			s.reads(s.serverIn, initialize+"EOF")
			s.endServer()
			s.tells(s.settle())
			s.relay.Disconnect("")
			s.reads(s.fromRelay, "")
			s.tells(s.settle(), Event{Kind: ClientWrote})
		})
	}
}

// A server that lacks what the client relies on is no failure after which to try again.
func TestRestoreFindsAnotherServer(t *testing.T) {
	for answer, why := range map[string]string{
		strings.Replace(initializeResult, "2025-11-25", "2025-06-18", 1): "protocolVersion",
		strings.Replace(initializeResult, "tools", "prompts", 1):         "capabilities",
	} {
		s := newStage(t, false)
		s.shakeHands()
		s.fallAsleep()
		s.write(s.toRelay, call)
		s.connect()
		s.relay.Restore()
		events := s.write(s.serverOut, answer)
		if len(events) != 2 || events[1].Kind != Changed || !strings.Contains(events[1].Text, why) {
			t.Errorf("events %v", events)
		}
		s.relay.Finish()
		s.endServer()
		if !s.relay.Flush("no server", false, 0) {
			t.Error("the client has not got everything")
		}
		s.reads(s.fromRelay, refusal("7"))
	}
}

// After a failed wake the next server is asked from the beginning. What the failed one has asked is taken back, and the next
// one's question has another id.
func TestRestoreTwice(t *testing.T) {
	const takenBack = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"the server has ended"}}` + "\n"
	s := newStage(t, false)
	s.shakeHands()
	s.fallAsleep()
	for _, id := range []string{"1", `"mcp-tether:2"`, `"mcp-tether:3"`} {
		s.connect()
		s.tells(s.relay.Restore())
		s.reads(s.serverIn, initialize)
		s.tells(s.write(s.serverOut, serverAsks))
		s.reads(s.fromRelay, strings.Replace(serverAsks, `"id":1`, `"id":`+id, 1))
		s.relay.EndServer()
		s.endServer()
		s.settle()
		s.relay.Disconnect("")
		s.settle()
		s.reads(s.fromRelay, fmt.Sprintf(takenBack, id))
	}
	s.connect()
	s.tells(s.relay.Restore())
	s.tells(s.write(s.serverOut, initializeResult), Event{Kind: Answered}, Event{Kind: Restored})
	s.reads(s.serverIn, initialize+initialized)
	s.reads(s.fromRelay, "")
	s.fallAsleep()
}
