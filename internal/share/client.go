package share

import (
	"bytes"
	"encoding/json"
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
	id      mux.Client
	conn    int
	greeted bool
	hello   hello
	// fds are the descriptors of the hello, and mem the mapped notes.
	fds   [streamCount]int
	mem   []byte
	notes *notes

	in, err relay.Stream
	// reads says that input is read now. eager says that input cannot be waited for. ended says that there is no more
	// input.
	reads, eager, ended bool
	// endBy is when a session that has closed its input stops waiting: for its answers, or to be read from again. It is
	// zero while the input is read, and until it is closed.
	endBy time.Time
	// scanned is how much of the unread input is known to have no end of line.
	scanned int

	// queue is what is to be written, and queued its length in bytes. sent is how much of the first line is in the outlet.
	queue  []mux.Out
	queued int64
	sent   int
	// inOutlet is how much is in the outlet. chunk is how much may be put there at once, and most how much may be moved to
	// the client without waiting.
	inOutlet, chunk, most int
	// socket: writes are bounded by most. blocked: the client's side is full, and waited for. direct: output does not go
	// through the outlet, because it cannot be moved from there.
	socket, blocked, direct bool
	out                     relay.Stream
	// rest is what came back from the outlet when output became direct.
	rest []byte
	// moved is how much it has taken since the server was held back, in bytes.
	moved int64
	// touched says that it is to be served in this step.
	touched bool
}

const (
	// pauseReading is how many bytes may wait for a client, or for the server, before nothing more is read.
	pauseReading = 1 << 20
	// keptLine is how much memory is kept for the next message, in bytes.
	keptLine = 256 << 10
	// outletSize bounds what is in the outlet, in bytes: the default capacity of a pipe (pipe(7)).
	outletSize = 64 << 10
)

func newClient(id mux.Client, conn int) *client {
	c := &client{id: id, conn: conn}
	for i := range c.fds {
		c.fds[i] = -1
	}
	return c
}

// greet takes the hello of a session.
func (h *host) greet(c *client) {
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
	if h.attached >= h.most {
		h.send(c, verdict{Next: nextFull})
		h.drop(c)
		return
	}
	if err := c.open(h.o.MaxMessage); err != nil {
		h.send(c, verdict{Code: exitFailure, Why: err.Error()})
		h.drop(c)
		return
	}
	outs, why := h.admit(c)
	if why != "" {
		h.sendAway(c, why)
		h.drop(c)
		return
	}
	c.greeted = true
	h.deliver(outs) // Now: before, nothing would be queued for it.
	if h.first == nil {
		h.first = c
	}
	h.count(1)
	h.startReading(c)
	h.watch(c.fds[streamOut], source{c.id, onOut}, 0)
	h.lines(c)
	h.touch(c)
}

// admit reports a client to the mux, and returns what is to be delivered. why says why it does not fit; "" if it does.
func (h *host) admit(c *client) (outs []mux.Out, why string) {
	var s mux.State
	if state := c.notes.state(); state == nil || json.Unmarshal(state, &s) != nil {
		h.mux.Attach(c.id)
		return nil, ""
	}
	outs, err := h.mux.Resume(c.id, s)
	if err != nil {
		return nil, reason(err)
	}
	return outs, ""
}

func reason(err error) string {
	var misfit *mux.MisfitError
	if errors.As(err, &misfit) {
		return misfit.Reason
	}
	return err.Error()
}

// sendAway tells a session that it needs a server of its own.
func (h *host) sendAway(c *client, why string) {
	if h.o.Alone != "" {
		h.send(c, verdict{Code: exitFailure, Why: "the server of its own does not fit either: " + why})
		return
	}
	h.send(c, verdict{Next: nextAlone, Why: why})
}

func (h *host) send(c *client, v verdict) { _ = send(c.conn, v) }

// open prepares what came with the hello. The flags of the outlet and of pipes belong to others as well, so we open them
// once more.
func (c *client) open(limit int64) error {
	mem, err := mapNotes(c.fds[streamNotes], limit)
	if err != nil {
		return err
	}
	c.mem = mem
	if c.notes, err = openNotes(mem); err != nil {
		return err
	}
	for fd, mode := range map[int]int{outletRead: unix.O_RDONLY, outletWrite: unix.O_WRONLY} {
		if err := c.reopen(fd, mode); err != nil {
			return fmt.Errorf("open the outlet: %w", err)
		}
	}
	var in, out unix.Stat_t
	if err := errors.Join(unix.Fstat(c.fds[streamIn], &in), unix.Fstat(c.fds[streamOut], &out)); err != nil {
		return fmt.Errorf("look at the streams: %w", err)
	}
	if kind := in.Mode & unix.S_IFMT; kind == unix.S_IFIFO || kind == unix.S_IFCHR {
		_ = c.reopen(streamIn, unix.O_RDONLY)
	}
	if out.Mode&unix.S_IFMT == unix.S_IFCHR {
		// A terminal that was stopped (Ctrl-S) must not stop us.
		_ = c.reopen(streamOut, unix.O_WRONLY)
	}
	c.in, c.err = relay.ReadEnd(c.fds[streamIn]), c.errorStream()
	c.chunk, c.most = outletSize, outletSize
	if size, err := unix.FcntlInt(uintptr(c.fds[outletWrite]), unix.F_GETPIPE_SZ, 0); err == nil {
		c.chunk = min(size, outletSize)
	}
	if out.Mode&unix.S_IFMT == unix.S_IFSOCK {
		c.socket, c.most = true, 4<<10
		if size, err := unix.GetsockoptInt(c.fds[streamOut], unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil {
			c.most = min(max(size/4, 1), outletSize)
		}
	}
	c.inOutlet = waiting(c.fds[outletRead])
	return nil
}

// errorStream is the client's standard error where a write to it does not block.
func (c *client) errorStream() relay.Stream {
	var st unix.Stat_t
	fd := c.fds[streamErr]
	if unix.Fstat(fd, &st) != nil {
		return relay.WriteEnd(-1)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFCHR:
		if c.reopen(streamErr, unix.O_WRONLY) != nil {
			return relay.WriteEnd(-1)
		}
	}
	return relay.ReadEnd(c.fds[streamErr])
}

func (c *client) reopen(which, mode int) error {
	again, err := proc.Reopen(c.fds[which], mode)
	if err == nil {
		_ = unix.Close(c.fds[which])
		c.fds[which] = again
	}
	return err
}

// read reads once from a client.
func (h *host) read(c *client) {
	if !c.reads {
		return
	}
	room := c.notes.room()
	if room == nil {
		h.refuse(c, fmt.Sprintf("a message of more than %d bytes (--max-message)", h.o.MaxMessage))
		return
	}
	n, end := c.in.Read(room)
	c.notes.took(n)
	if n > 0 {
		h.lines(c)
		h.release(c)
	}
	if end {
		c.ended = true
		h.endSoon(c)
		h.stopReading(c)
		h.touch(c)
	}
}

// release gives back the memory of a long message that was acted upon.
func (h *host) release(c *client) {
	if cap(h.line) > keptLine && len(h.line) <= keptLine {
		h.line = nil
	}
	if h.clients[c.id] != c || c.notes.fill < keptLine || len(c.notes.unread()) > 0 {
		return
	}
	used := int(c.notes.fill)
	c.notes.restart()
	_ = unix.Madvise(c.mem[inputAt:inputAt+used], unix.MADV_REMOVE)
}

// lines acts on the whole lines that were read.
func (h *host) lines(c *client) {
	for h.clients[c.id] == c {
		b := c.notes.unread()
		i := bytes.IndexByte(b[min(c.scanned, len(b)):], '\n')
		if i < 0 {
			c.scanned = len(b)
			if int64(len(b)) > h.o.MaxMessage {
				h.refuse(c, fmt.Sprintf("a message of more than %d bytes (--max-message)", h.o.MaxMessage))
			}
			if h.server.size > pauseReading { // Lines for the server alone touch nobody.
				h.touch(c)
			}
			return
		}
		i += c.scanned
		c.scanned = 0
		// A copy: the memory is shared with another process.
		h.line = append(h.line[:0], b[:i]...)
		outs, err := h.mux.FromClient(c.id, h.line)
		if err != nil {
			h.misfit(c, err)
			return
		}
		opened, closed := h.mux.Changes(c.id)
		h.deliver(outs) // In any case: the mux counts on it. Nothing is written yet.
		h.keepStates()  // Before the line is consumed: a notification does not come again.
		if h.clients[c.id] != c {
			return
		}
		if err := errors.Join(c.notes.consume(i+1, opened), c.notes.close(closed)); err != nil {
			h.refuse(c, err.Error())
			return
		}
	}
}

// misfit sends away a client that needs a server of its own, or ends it.
func (h *host) misfit(c *client, err error) {
	var misfit *mux.MisfitError
	switch {
	case !errors.As(err, &misfit), len(c.queue) > 0, c.inOutlet > 0, len(c.notes.open) > 0:
		h.refuse(c, err.Error())
	case h.o.Alone != "":
		h.refuse(c, "the server of its own does not fit either: "+misfit.Reason)
	default:
		h.detach(c, &verdict{Next: nextAlone, Why: misfit.Reason})
	}
}

// refuse ends a client with an error.
func (h *host) refuse(c *client, why string) { h.detach(c, &verdict{Code: exitFailure, Why: why}) }

// endSoon has a session that has closed its input end when its time is up.
func (h *host) endSoon(c *client) {
	c.endBy = time.Now().Add(h.o.EOFGrace)
	h.special[c] = true
}

func (h *host) startReading(c *client) {
	c.reads = true
	c.endBy = time.Time{} // What is unread comes before the end.
	h.unwatch(c.fds[streamIn])
	if c.eager = !h.watch(c.fds[streamIn], source{c.id, onIn}, unix.EPOLLIN); c.eager {
		h.special[c] = true
	}
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
	case c.ended:
		if len(c.queue) == 0 && c.inOutlet == 0 && len(c.notes.open) == 0 {
			h.detach(c, &verdict{})
		}
	case c.reads && (c.queued > pauseReading || h.server.size > pauseReading):
		h.stopReading(c)
	case !c.reads && c.queued <= pauseReading && h.server.size <= pauseReading:
		h.startReading(c)
	}
}

// write writes what can be written now. It reports false when the client is gone.
func (h *host) write(c *client) bool {
	for {
		if c.inOutlet > 0 {
			if done, gone := h.move(c); gone {
				h.detach(c, &verdict{})
				return false
			} else if !done {
				return true
			}
		}
		if len(c.queue) == 0 {
			h.block(c, false)
			return true
		}
		o := &c.queue[0]
		b := o.Line[c.sent:]
		last := len(b) <= c.chunk
		answers := o.Answers
		if !last {
			b, answers = b[:c.chunk], nil
		}
		if err := c.notes.intend(len(b), answers, !last); err != nil {
			h.refuse(c, err.Error())
			return false
		}
		n, gone, full := c.put(b)
		switch {
		case gone:
			h.detach(c, &verdict{})
			return false
		case n < len(b):
			if n > 0 {
				c.notes.partly()
			} else {
				c.notes.unintend()
			}
			last = false
		default:
			c.notes.commit(answers)
		}
		c.sent += n
		c.queued -= int64(n)
		c.moved += int64(n)
		h.queued -= int64(n)
		if last {
			c.queue[0] = mux.Out{}
			c.queue, c.sent = c.queue[1:], 0
		}
		if full {
			h.block(c, true)
			return true
		}
	}
}

// put puts bytes into the outlet, or writes them to the client where the outlet cannot be used.
func (c *client) put(b []byte) (n int, gone, full bool) {
	if c.direct {
		n, gone = c.out.Write(b)
		return n, gone, n < len(b)
	}
	n, err := unix.Write(c.fds[outletWrite], b)
	if err != nil {
		return 0, !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR), true
	}
	c.inOutlet = n
	return n, false, false
}

// move moves what is in the outlet to the client.
func (h *host) move(c *client) (done, gone bool) {
	for c.inOutlet > 0 {
		if c.socket && !writable(c.fds[streamOut]) {
			h.block(c, true)
			return false, false
		}
		n, err := c.moveSome()
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			h.block(c, true)
			return false, false
		case err != nil, n <= 0:
			return false, true
		}
		c.inOutlet -= n
	}
	return true, false
}

// moveSome moves once. Nothing can be moved to files that are opened for appending, nor to some devices. Once a move
// was refused, output is written without the outlet.
func (c *client) moveSome() (int, error) {
	if !c.direct {
		n, err := unix.Splice(c.fds[outletRead], nil, c.fds[streamOut], nil, min(c.inOutlet, c.most), unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINVAL) {
			return int(n), err
		}
		rest := make([]byte, c.inOutlet)
		got, err := unix.Read(c.fds[outletRead], rest)
		if err != nil {
			return 0, err
		}
		c.direct, c.rest, c.out = true, rest[:got], relay.WriteEnd(c.fds[streamOut])
	}
	n, gone := c.out.Write(c.rest)
	switch c.rest = c.rest[n:]; {
	case gone:
		return 0, unix.EPIPE
	case n == 0:
		return 0, unix.EAGAIN
	}
	return n, nil
}

func writable(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
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

// detach lets a session go, with a last word if the attached process is there to hear it.
func (h *host) detach(c *client, v *verdict) {
	if h.clients[c.id] != c {
		return
	}
	greeted := c.greeted
	if v != nil && greeted {
		// The streams first, so that the client sees their end no later than the end of the attached process.
		c.closeStreams(h)
		h.send(c, *v)
	}
	h.drop(c)
	if greeted {
		h.count(-1)
		h.deliver(h.mux.Detach(c.id))
	}
}

// drop forgets a client.
func (h *host) drop(c *client) {
	delete(h.clients, c.id)
	delete(h.special, c)
	h.queued -= c.queued
	c.queued = 0
	if h.first == c {
		h.first = nil
		for _, other := range h.clients {
			if other.greeted && (h.first == nil || other.id < h.first.id) {
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
	c.out.Close()
	if c.mem != nil {
		_ = unix.Munmap(c.mem)
		c.mem, c.notes = nil, nil
	}
}
