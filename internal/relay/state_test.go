package relay

import (
	"encoding/json"
	"testing"

	"golang.org/x/sys/unix"
)

// Another relay goes on where one was whose server sleeps, from what was written down of it. What the client does meanwhile is not
// lost: nothing of it was read.
func TestResume(t *testing.T) {
	eachTransport(t, func(s *stage) {
		s.shakeHands()
		if _, ok := s.relay.State(); ok {
			t.Error("there is a state with a server")
		}
		s.fallAsleep()
		state, ok := s.relay.State()
		text, err := json.Marshal(state)
		if !ok || err != nil {
			t.Fatalf("no state: %v", err)
		}
		_, _ = unix.Write(s.toRelay, []byte(list))
		if _, ok := s.relay.State(); ok {
			t.Error("there is a state with bytes of the client that nobody has read")
		}
		var read State
		s.must(json.Unmarshal(text, &read))
		s.relay = Resume(s.relay.client.In, s.relay.client.Out, maxMessage, read)
		if !s.relay.Spoke() || !s.relay.Used().Equal(state.Used) {
			t.Errorf("it resumes with %+v", read)
		}
		s.tells(s.settle(), Event{Kind: ClientWrote})
		s.connect()
		s.tells(s.relay.Restore())
		s.tells(s.settle())
		s.reads(s.serverIn, initialize)
		s.tells(s.write(s.serverOut, initializeResult), Event{Kind: Answered}, Event{Kind: Restored})
		s.reads(s.serverIn, initialized+list)
		s.tells(s.write(s.serverOut, listed))
		s.reads(s.fromRelay, listed)
	})
}

// A client that does not speak in lines has no state that another relay could go on with.
func TestNoStateOfOtherFramings(t *testing.T) {
	s := newStage(t, false)
	s.write(s.toRelay, "Content-Length: 2\r\n\r\n{}")
	s.endServer()
	s.relay.Disconnect("")
	if _, ok := s.relay.State(); ok {
		t.Error("there is a state")
	}
}
