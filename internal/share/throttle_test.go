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
	const waiting = outputBudget + 64<<20 + 1
	big := mux.Out{Line: make([]byte, waiting*2/3)}
	h.deliver([]mux.Out{{To: still.id, Line: big.Line}, {To: reader.id, Line: big.Line[:waiting-len(big.Line)]}})
	now := time.Now()
	if h.throttledUntil.IsZero() {
		t.Fatal("the server is not held back")
	}
	h.unthrottle(now)
	if h.clients[still.id] == nil {
		t.Error("nobody has had the time to read")
	}
	h.unthrottle(now.Add(2 * throttleTime))
	if h.clients[still.id] != nil || h.clients[reader.id] == nil {
		t.Errorf("the one that has read nothing is there: %t; the other: %t", h.clients[still.id] != nil, h.clients[reader.id] != nil)
	}
	h.queued = outputBudget / 2
	if h.unthrottle(now); !h.throttledUntil.IsZero() {
		t.Error("the server is held back for ever")
	}
}
