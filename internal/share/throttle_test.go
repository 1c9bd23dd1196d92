package share

import (
	"testing"
	"time"

	"mcp-tether/internal/mcp/mux"
)

// Over the budget the client for which most waits ends, and not before the others have had their time to read. Seen to go on for
// ever where nobody ends.
func TestThrottle(t *testing.T) {
	h := newHost(t)
	still, reader := connect(t, h), connect(t, h)
	h.takeHello(still)
	h.takeHello(reader)
	h.longest = 1 << 20
	const waiting = outputBudget + 3<<20
	line := make([]byte, waiting*2/3)
	h.deliver([]mux.Out{{To: still.id, Line: line}, {To: reader.id, Line: line[:waiting-len(line)]}})
	now := time.Now()
	if h.pass(now); h.throttledUntil.IsZero() {
		t.Fatal("the server is not held back")
	}
	h.pass(now)
	if h.clients[still.id] == nil {
		t.Error("nobody has had the time to read")
	}
	h.pass(now.Add(2 * throttleTime))
	if h.clients[still.id] != nil || h.clients[reader.id] == nil {
		t.Errorf("the one that has read nothing is there: %t; the other: %t", h.clients[still.id] != nil, h.clients[reader.id] != nil)
	}
	if h.pass(now); !h.throttledUntil.IsZero() {
		t.Error("the server is held back for ever")
	}
}

// A line that goes to many is queued for each, so those end at once for which it would be far too much.
func TestLongLineForMany(t *testing.T) {
	h := newHost(t)
	h.longest = 1 << 20
	line := make([]byte, outputBudget)
	var outs []mux.Out
	for range 4 {
		c := connect(t, h)
		h.takeHello(c)
		outs = append(outs, mux.Out{To: c.id, Line: line})
	}
	h.deliver(outs)
	if h.pass(time.Now()); len(h.clients) != 2 {
		t.Errorf("%d of 4 are there", len(h.clients))
	}
}
