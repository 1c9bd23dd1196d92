package share

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/mcp/mux"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
)

// client is an attached session, as its host knows it.
type client struct {
	id       mux.Client
	conn     int
	attached bool
	hello    hello
	// fds are the descriptors of the hello: pipes of the session's front, and its standard error.
	fds [streamCount]int
	err relay.Stream
	input
	output
	// endBy is when a session that has closed its input stops waiting: for its answers, or to be read from again. It is zero
	// while the input is read, and until it is closed.
	endBy time.Time
	// asleep says that its server is to be asleep from now on, as far as it goes.
	asleep bool
	// touched says that it is to be served in this step.
	touched bool
}

// input is what a client says.
type input struct {
	// reads says that input is read now, ended that there is no more.
	reads, ended bool
	// unread is what was read and not acted upon. The first scanned bytes are known to have no end of line.
	unread  []byte
	scanned int
	// ahead is how many bytes of it wait for the server.
	ahead int64
}

// output is what a client is to get.
type output struct {
	// queue is what is to be written, and queued its length in bytes. sent is how much of the first line was written.
	queue  []mux.Out
	queued int64
	sent   int
	// blocked: the client's side is full, and waited for.
	blocked bool
}

const (
	// pauseReading is how many bytes may wait for one side, before the other is not read from any more.
	pauseReading = 1 << 20
	// mayBeAhead is how many bytes of one client may wait for the server before no more of them are read.
	mayBeAhead = 128 << 10
	// keptLine is how much memory is kept for the next message for long, in bytes.
	keptLine = 256 << 10
	// clientRead bounds one read from a client, in bytes.
	clientRead = 64 << 10
)

func newClient(id mux.Client, conn int) *client {
	c := &client{id: id, conn: conn}
	for i := range c.fds {
		c.fds[i] = -1
	}
	return c
}

// takeHello takes the hello of a session.
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
	copy(c.fds[:], fds)
	if h.attached >= h.most || h.mux.Closed() {
		h.send(c, verdict{Next: nextFull})
		h.drop(c)
		return
	}
	for _, fd := range c.fds[:streamErr] {
		err = errors.Join(err, unix.SetNonblock(fd, true))
	}
	if err != nil || !h.watch(c.fds[streamIn], source{c.id, onIn}, unix.EPOLLIN) || !h.watch(c.fds[streamOut], source{c.id, onOut}, 0) {
		h.send(c, verdict{Code: exitFailure, Why: "its streams cannot be waited for"})
		h.drop(c)
		return
	}
	if h.parts == nil {
		h.parts = c.hello.Parts
	}
	c.err = c.errorStream()
	c.attached, c.reads = true, true
	h.mux.Attach(c.id)
	if h.first == nil {
		h.first = c
	}
	h.count(1)
	h.touch(c)
}

func (h *host) send(c *client, v verdict) { _ = send(c.conn, v) }

// errorStream is the client's standard error where a write to it does not block.
func (c *client) errorStream() relay.Stream {
	var st unix.Stat_t
	fd := c.fds[streamErr]
	if unix.Fstat(fd, &st) != nil {
		return relay.WriteEnd(-1)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFCHR:
		again, err := proc.Reopen(fd, unix.O_WRONLY)
		if err != nil {
			return relay.WriteEnd(-1)
		}
		_ = unix.Close(fd)
		c.fds[streamErr] = again
	}
	return relay.ReadEnd(c.fds[streamErr])
}

// read reads once from a client.
func (h *host) read(c *client) {
	if !c.reads {
		return
	}
	if cap(c.unread)-len(c.unread) < clientRead {
		c.unread = append(make([]byte, 0, max(2*cap(c.unread), 2*clientRead)), c.unread...)
	}
	n, err := unix.Read(c.fds[streamIn], c.unread[len(c.unread):len(c.unread)+clientRead])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
	case err != nil, n == 0:
		c.ended = true
		if len(c.unread) > 0 { // The last line may have no end.
			c.unread = append(c.unread, '\n')
			h.lines(c)
		}
		h.endSoon(c)
		h.stopReading(c)
		h.touch(c)
	default:
		c.unread = c.unread[:len(c.unread)+n]
		h.lines(c)
	}
}

// lines acts on the whole lines that were read.
func (h *host) lines(c *client) {
	b := c.unread
	for h.clients[c.id] == c {
		i := bytes.IndexByte(b[c.scanned:], '\n')
		if i < 0 {
			break
		}
		i += c.scanned
		c.scanned = 0
		h.deliver(h.mux.FromClient(c.id, b[:i]))
		b = b[i+1:]
	}
	c.scanned = len(b)
	c.unread = c.unread[:copy(c.unread, b)]
	switch {
	case int64(len(c.unread)) > h.longest:
		h.refuse(c, fmt.Sprintf("a message of more than %d bytes", h.longest))
	case cap(c.unread) > keptLine:
		h.freeSoon()
	}
	if c.ahead > mayBeAhead { // Lines for the server alone touch nobody.
		h.touch(c)
	}
}

// refuse ends a client with an error.
func (h *host) refuse(c *client, why string) { h.detach(c, &verdict{Code: exitFailure, Why: why}) }

// endSoon has a session that has closed its input end when its time is up.
func (h *host) endSoon(c *client) {
	c.endBy = time.Now().Add(h.o.EOFGrace)
	h.closing[c] = true
}

func (h *host) startReading(c *client) {
	c.reads = true
	c.endBy = time.Time{} // What is unread comes before the end.
	h.change(c.fds[streamIn], source{c.id, onIn}, unix.EPOLLIN)
}

// stopReading leaves the input alone. If it has not ended, that the client closes it is still reported: once, because it
// stays true.
func (h *host) stopReading(c *client) {
	if !c.reads {
		return
	}
	c.reads = false
	if c.ended {
		h.unwatch(c.fds[streamIn])
		return
	}
	h.change(c.fds[streamIn], source{c.id, onIn}, unix.EPOLLRDHUP|unix.EPOLLONESHOT)
}

// serve writes what waits for a client, starts or stops reading from it, and lets it go when it is done.
func (h *host) serve(c *client) {
	if !h.write(c) {
		return
	}
	switch {
	case h.parting != nil:
		if len(c.queue) == 0 {
			h.detach(c, h.parting)
		}
	case c.ended:
		if len(c.queue) == 0 && h.mux.Open(c.id) == 0 {
			h.detach(c, &verdict{})
		}
	case c.reads && (c.queued > pauseReading || c.ahead > mayBeAhead):
		h.stopReading(c)
	case !c.reads && c.queued <= pauseReading && c.ahead <= mayBeAhead:
		h.startReading(c)
	}
}

// write writes what can be written now. It reports false when the client is gone.
func (h *host) write(c *client) bool {
	for len(c.queue) > 0 {
		n, err := unix.Writev(c.fds[streamOut], batch(c.queue, c.sent))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			h.block(c, true)
			return true
		case err != nil:
			h.detach(c, &verdict{})
			return false
		}
		c.queue, c.sent = written(c.queue, c.sent, n)
		c.queued -= int64(n)
		h.queued -= int64(n)
	}
	h.block(c, false)
	return true
}

// batch are the first lines of a queue, for one writev(2). sent is how much of the first one was written before.
func batch(queue []mux.Out, sent int) [][]byte {
	lines := make([][]byte, min(len(queue), 64))
	for i := range lines {
		lines[i] = queue[i].Line
	}
	lines[0] = lines[0][sent:]
	return lines
}

// written drops from a queue the lines of which all was written, now that n more bytes were.
func written(queue []mux.Out, sent, n int) ([]mux.Out, int) {
	for n += sent; len(queue) > 0 && n >= len(queue[0].Line); queue = queue[1:] {
		n -= len(queue[0].Line)
		queue[0] = mux.Out{}
	}
	return queue, n
}

// block starts or stops waiting for the client to read.
func (h *host) block(c *client, blocked bool) {
	if c.blocked == blocked {
		return
	}
	c.blocked = blocked
	events := uint32(0)
	if blocked {
		events = unix.EPOLLOUT
	}
	h.change(c.fds[streamOut], source{c.id, onOut}, events)
}

// leave lets a session go whose front falls asleep, as it says, or has gone without a word.
func (h *host) leave(c *client) {
	var f farewell
	fds, err := receive(c.conn, &f)
	closeAll(fds)
	c.asleep = err == nil && f.Asleep
	h.detach(c, nil)
}

// detach lets a session go, with a last word if its front is there to hear it.
func (h *host) detach(c *client, v *verdict) {
	if h.clients[c.id] != c {
		return
	}
	attached := c.attached
	if !c.asleep {
		h.leftAt = time.Now()
	}
	if v != nil && attached {
		// The streams first, so that the front has all that was written when it hears that there is no more.
		c.closeStreams(h)
		h.send(c, *v)
	}
	h.drop(c)
	if attached {
		h.count(-1)
		h.deliver(h.mux.Detach(c.id))
	}
}

// drop forgets a client.
func (h *host) drop(c *client) {
	delete(h.clients, c.id)
	delete(h.closing, c)
	h.queued -= c.queued
	c.queued = 0
	if h.first == c {
		h.first = nil
		for _, other := range h.clients {
			if other.attached && (h.first == nil || other.id < h.first.id) {
				h.first = other
			}
		}
	}
	h.unwatch(c.conn)
	_ = unix.Close(c.conn)
	c.closeStreams(h)
}

func (c *client) closeStreams(h *host) {
	for i, fd := range c.fds {
		h.unwatch(fd)
		closeAll([]int{fd})
		c.fds[i] = -1
	}
}
