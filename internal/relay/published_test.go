package relay

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-tether/internal/mcp"
)

// shelf is what is known of one server, and what was saved of it.
type shelf struct {
	known *mcp.Published
	saved []mcp.Published
}

// lazyStage is a relay without a server, of which something is known.
func lazyStage(t *testing.T, known *mcp.Published) (*stage, *shelf) {
	t.Helper()
	s, k := newStage(t, false), &shelf{known: known}
	s.endServer()
	s.relay.Lazy(Published{
		Load: func([]byte) *mcp.Published { return k.known },
		Save: func(_ []byte, news mcp.Published) { k.saved = append(k.saved, news) },
	})
	return s, k
}

func aboutServer() *mcp.Published {
	return &mcp.Published{
		Reply: mcp.ValueAt([]byte(welcome), "result"),
		Lists: map[string][]json.RawMessage{"tools": {mcp.ValueAt([]byte(listed), "result")}},
	}
}

// A message that needs a server holds up what comes after it: nothing overtakes it.
func TestTellsInOrder(t *testing.T) {
	s, _ := lazyStage(t, aboutServer())
	if s.tells(s.write(s.toRelay, initialize+initialized+list)); !s.relay.Told() {
		t.Error("the client was told nothing")
	}
	s.reads(s.fromRelay, welcome+listed)
	s.tells(s.write(s.toRelay, call+strings.ReplaceAll(list, `"id":2`, `"id":8`)), Event{Kind: ClientWrote})
	s.reads(s.fromRelay, "")
	s.connect()
	s.tells(s.relay.Restore())
	s.reads(s.serverIn, initialize)
}

// The memory that a large list has taken is given back, once.
func TestTellsMuch(t *testing.T) {
	for _, size := range []int{1, 40 << 10} {
		known := aboutServer()
		known.Lists["tools"] = []json.RawMessage{[]byte(`{"tools":["` + strings.Repeat("x", size) + `"]}`)}
		s, _ := lazyStage(t, known)
		s.tells(s.write(s.toRelay, initialize+initialized+list))
		if got := s.read(s.fromRelay); len(got) < size {
			t.Errorf("%d bytes were told", len(got))
		}
		if at := s.relay.ShrinkAt(); at.IsZero() != (size == 1) {
			t.Errorf("after %d bytes the memory is given back at %v", size, at)
		}
		if s.relay.Shrink(); !s.relay.ShrinkAt().IsZero() {
			t.Error("it is given back again and again")
		}
	}
}

// In a batch, and where nothing is known, the message is the server's.
func TestTellsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		known *mcp.Published
		said  string
	}{
		"nothing known": {nil, initialize},
		"no handshake":  {aboutServer(), list},
		"batch":         {aboutServer(), "[" + strings.TrimSpace(initialize) + "]\n"},
		"noise":         {aboutServer(), "what?\n"},
	} {
		s, k := lazyStage(t, c.known)
		s.tells(s.write(s.toRelay, c.said), Event{Kind: ClientWrote})
		s.reads(s.fromRelay, "")
		if s.relay.Told() || len(k.saved) > 0 {
			t.Errorf("%s: told %t, saved %v", name, s.relay.Told(), k.saved)
		}
	}
}

// What a first server publishes is saved as it passes, and what the client was told is not.
func TestSavesWhatPasses(t *testing.T) {
	s, k := lazyStage(t, nil)
	s.tells(s.write(s.toRelay, initialize), Event{Kind: ClientWrote})
	s.connect()
	s.tells(s.relay.Restore(), Event{Kind: Unasked})
	s.reads(s.serverIn, initialize)
	s.tells(s.write(s.serverOut, welcome), Event{Kind: Answered})
	s.reads(s.fromRelay, welcome)
	s.write(s.toRelay, initialized+list)
	s.reads(s.serverIn, initialized+list)
	s.write(s.serverOut, listed)
	s.reads(s.fromRelay, listed)
	var all mcp.Published
	for _, news := range k.saved {
		all.Add(news)
	}
	if len(k.saved) == 0 || !mcp.SameJSON(all.Reply, aboutServer().Reply) || len(all.Lists["tools"]) != 1 {
		t.Errorf("saved %v", k.saved)
	}
	again, told := lazyStage(t, &all)
	again.write(again.toRelay, initialize+initialized+list)
	again.reads(again.fromRelay, welcome+listed)
	if len(told.saved) > 0 {
		t.Errorf("saved again: %v", told.saved)
	}
	if again.relay.Forget(); len(told.saved) != 1 || !told.saved[0].Wrong {
		t.Errorf("what was wrong is kept: %v", told.saved)
	}
}
