package share

import (
	"testing"

	"mcp-tether/internal/mcp/mux"
)

// While the server is held back, the host waits for a client that reads, and only one that does not read goes. Seen to
// fail where the slowest goes in any case: beside many busy processes, that was a client that read.
func TestThrottleSparesReaders(t *testing.T) {
	const waiting = outputBudget * 3 / 4
	for what, c := range map[string]struct {
		clients map[mux.Client]*client
		goes    mux.Client // none is 0
	}{
		"alone and slow":       {map[mux.Client]*client{1: {output: output{queued: waiting, moved: leastMoved}}}, 0},
		"alone and still":      {map[mux.Client]*client{1: {output: output{queued: waiting, moved: leastMoved - 1}}}, 1},
		"one of two is still":  {map[mux.Client]*client{1: {output: output{queued: waiting / 2, moved: leastMoved}}, 2: {output: output{queued: waiting / 2}}}, 2},
		"nothing waits for it": {map[mux.Client]*client{1: {output: output{queued: waiting, moved: leastMoved}}, 2: {}}, 0},
		"the stillest goes":    {map[mux.Client]*client{1: {output: output{queued: waiting / 2, moved: 2}}, 2: {output: output{queued: waiting / 2, moved: 1}}}, 2},
	} {
		h := &host{queued: waiting, clients: c.clients}
		if got := h.stalledClient(); got != c.clients[c.goes] {
			t.Errorf("%s: %+v goes, want client %d", what, got, c.goes)
		}
	}
}
