package share

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/waiting"
)

// client is an attached session, as its host knows it. The peer is its front.
type client struct {
	id       mux.Client
	conn     int
	attached bool
	hello    hello
	relay.Peer
	// stderr is its standard error, and stderrFD the descriptor of that if it is the one of the hello.
	stderr   relay.Stream
	stderrFD int
	// ahead is how many bytes of it wait for the server.
	ahead int64
	// asleep says that its server is to be asleep from now on, as far as it goes.
	asleep bool
	// verdict is why it is to end at once; nil for no reason of ours.
	verdict *Verdict
}

const (
	// pauseReading is how many bytes may wait for one side, before the other is not read from any more.
	pauseReading = 1 << 20
	// mayBeAhead is how many bytes of one client may wait for the server before no more of them are read.
	mayBeAhead = 128 << 10
)

func newClient(id mux.Client, conn int) *client {
	c := &client{id: id, conn: conn, stderrFD: -1, stderr: relay.WriteEnd(-1)}
	c.Peer.Close()
	return c
}

func (h *host) takeHello(c *client) {
	fds, err := receive(c.conn, &c.hello)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return
	case err != nil:
		h.drop(c)
		return
	case len(fds) != streamCount:
		closeAll(fds)
		h.drop(c)
		return
	}
	c.Peer = relay.Peer{In: relay.Own(fds[streamIn]), Out: relay.Own(fds[streamOut])}
	if c.stderrFD, c.stderr = fds[streamErr], relay.ErrorEnd(fds[streamErr]); c.stderr.FD() != c.stderrFD {
		closeAll([]int{c.stderrFD})
		c.stderrFD = -1
	}
	if h.attached >= h.most || h.mux.Closed() {
		h.send(c, Verdict{Next: Full})
		h.drop(c)
		return
	}
	if h.parts == nil {
		h.parts = c.hello.Parts
	}
	c.attached = true
	h.mux.Attach(c.id)
	h.count(1)
	h.send(c, Verdict{Next: Here})
}

func (h *host) send(c *client, v Verdict) { _ = send(c.conn, v) }

// mayRead reports whether more of a client is read now. What it leaves unread, its front waits for.
func (h *host) mayRead(c *client) bool {
	return h.lastVerdict == nil && c.Waiting() <= pauseReading && c.ahead <= mayBeAhead
}

// readClient takes what a client has said, and returns how many bytes there were.
func (h *host) readClient(c *client) int {
	n := c.Read()
	for line := c.Line(); line != nil; line = c.Line() {
		h.deliver(h.mux.FromClient(c.id, line))
	}
	switch {
	case c.Ended: // Its last line may have no end.
		h.deliver(h.mux.FromClient(c.id, c.TakeRest()))
	case int64(c.Unfinished()) > h.longest:
		h.refuse(c, fmt.Sprintf("a message of more than %d bytes", h.longest))
	}
	return n
}

func (h *host) refuse(c *client, why string) {
	c.verdict = &Verdict{Code: waiting.ExitFailure, Why: why}
	c.Broken = true
}

// serve writes what waits for a client, and lets it go when it is done.
func (h *host) serve(c *client) {
	c.Flush()
	switch done := c.Waiting() == 0; {
	case c.verdict != nil:
		h.detach(c, c.verdict)
	case c.Broken:
		h.detach(c, &Verdict{})
	case h.lastVerdict != nil && done:
		h.detach(c, h.lastVerdict)
	case c.Ended && done && h.mux.Open(c.id) == 0:
		h.detach(c, &Verdict{})
	}
}

// leave lets a session go whose front falls asleep, as it says, or has gone without a word.
func (h *host) leave(c *client) {
	var f farewell
	fds, err := receive(c.conn, &f)
	closeAll(fds)
	if c.asleep = err == nil && f.Asleep; c.asleep { // What it has said last is for the server.
		c.Drain(func() int { return h.readClient(c) })
	}
	h.detach(c, nil)
}

// detach lets a session go, with a last word if its front is there to hear it.
func (h *host) detach(c *client, v *Verdict) {
	if !c.asleep {
		h.leftAt = time.Now()
	}
	if v != nil && c.attached {
		// The streams first, so that the front has all that was written when it hears that there is no more.
		c.Peer.Close()
		h.send(c, *v)
	}
	h.drop(c)
	if c.attached {
		h.count(-1)
		h.deliver(h.mux.Detach(c.id))
	}
}

func (h *host) drop(c *client) {
	delete(h.clients, c.id)
	c.Peer.Close()
	c.stderr.Close()
	closeAll([]int{c.conn, c.stderrFD})
}
