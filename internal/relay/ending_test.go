package relay

import "testing"

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
	s.tells(s.write(s.serverOut, serverAsks[20:]+serverSays))
	s.reads(s.fromRelay, serverSays+serverSays)
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
		s.tells(s.write(s.serverOut, initializeResult+serverAsks+serverSays), Event{Kind: Answered})
		s.reads(s.fromRelay, serverSays)
	})
	t.Run("waiting for a ping", func(t *testing.T) {
		s := rooted(t)
		s.wakes(call)
		s.write(s.serverOut, rootsAsked)
		s.write(s.toRelay, renamed(rootsGiven, 2))
		s.reads(s.fromRelay, renamed(rootsAsked, 2))
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
		s.tells(s.write(s.serverOut, initializeResult+serverSays), Event{Kind: Answered})
		s.reads(s.fromRelay, serverSays)
	})
}
