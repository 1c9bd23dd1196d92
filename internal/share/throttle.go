package share

import (
	"fmt"
	"time"

	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
)

func (h *host) deliver(outs []mux.Out) {
	for _, o := range outs {
		if o.To == mux.Server {
			h.put(o)
			continue
		}
		c := h.clients[o.To]
		if c == nil || !c.attached {
			continue
		}
		c.Put(o.Line)
		// Each has a copy of its own.
		if h.queued += int64(len(o.Line)); h.queued > 2*(outputBudget+h.longest) && c.Waiting() > 0 {
			h.refuse(c, doesNotRead(c))
		}
	}
	clear(outs) // Otherwise a long line would live until the next one.
}

func doesNotRead(c *client) string {
	return fmt.Sprintf("this session does not read: %d bytes were waiting for it", c.Waiting())
}

// throttle holds the server back while too much waits for clients. Those that read go on with what is queued for them. After
// throttleTime the client with most queued bytes ends.
func (h *host) throttle(now time.Time) {
	switch {
	case h.queued <= outputBudget/2:
		h.throttledUntil = time.Time{}
		return
	case h.throttledUntil.IsZero() && h.queued > outputBudget+h.longest:
		h.throttledUntil = now.Add(throttleTime)
	}
	if !proc.IsDue(h.throttledUntil, now) {
		return
	}
	var most *client
	for _, c := range h.clients {
		if most == nil || c.Waiting() > most.Waiting() {
			most = c
		}
	}
	h.refuse(most, doesNotRead(most))
	h.serve(most)
	h.throttledUntil = now.Add(throttleTime)
}
