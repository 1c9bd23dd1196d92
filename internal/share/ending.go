package share

import (
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// hostEnd is how far the end of the host is.
type hostEnd struct {
	// ending says that the host ends, and done that it has ended.
	ending, done bool
	// lastVerdict is what the clients are told once they have all that the server has written: it has ended. It is nil before.
	lastVerdict *Verdict
}

// giveUp ends the host although its server has not ended, or a client does not read.
func (h *host) giveUp() {
	h.done = true
	if h.lastVerdict != nil {
		for _, c := range h.clients {
			h.detach(c, h.lastVerdict)
		}
	}
}

// finish ends the host: no session finds it any more, those that it has are notified, and the server is ended. If
// polite, that only closes the server's standard input; the server's session does the rest.
func (h *host) finish(v Verdict, polite bool) {
	if h.ending {
		return
	}
	h.withdraw()
	h.release()
	for _, c := range h.clients {
		h.detach(c, &v)
	}
	if h.server.pid == 0 {
		h.done = true
		return
	}
	h.endBy = time.Now().Add(h.o.EndLimit)
	if polite {
		h.server.Out.Close()
		return
	}
	_ = proc.SignalChild(h.server.pid, unix.SIGTERM)
}

// withdraw has no session find the host any more.
func (h *host) withdraw() {
	h.ending = true
	_ = h.place.Withdraw()
	closeAll([]int{h.listener})
	h.lingerAt, h.listAt = time.Time{}, time.Time{}
}

// endWithServer ends a host whose server has ended. The next host of the place may begin at once. The clients that do not read get the
// time of --eof-grace for what is queued for them.
func (h *host) endWithServer(v Verdict) {
	h.withdraw()
	h.release()
	h.lastVerdict, h.endBy = &v, time.Now().Add(h.o.EOFGrace)
	for _, c := range h.clients {
		if !c.attached { // Its front has not been heard, and goes to the next host.
			h.drop(c)
		}
	}
	h.done = len(h.clients) == 0
}

// release lets the next host of the place begin.
func (h *host) release() {
	if h.lock != nil {
		_ = h.lock.Remove()
		h.lock = nil
	}
}
