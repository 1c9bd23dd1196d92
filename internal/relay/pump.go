package relay

import "golang.org/x/sys/unix"

// pump copies one direction of the relay at the speed of its reader. It holds at most one buffer that was read and not
// yet written, so back-pressure reaches the writer.
type pump struct {
	from, to Stream
	// tap sees what was read, and returns what to pass on.
	tap func([]byte) []byte
	// held forbids reading for now.
	held bool
	// ended: from has reached its end. broken: to takes no more.
	ended, broken bool
	buf, pending  []byte // pending is still to be written, often a part of buf
	// own says that pending is no part of anything else, so more can be appended in place.
	own bool
	// sent is how much was written since the last Connect, in bytes.
	sent int64
	// large says that the last read took half a buffer or more, and grown that buffer and pipes are those of a busy stream.
	large, grown bool
}

// bufferSize bounds one read, in bytes: the default capacity of a pipe (pipe(7)). A stream that keeps filling its
// buffer gets a larger one, and larger pipes: three processes then take fewer turns for the same bytes. A user has 64 MiB of
// pipes in all (fs.pipe-user-pages-soft), and beyond that every program of theirs gets pipes of a page or two. With larger
// ones than these, 32 busy sessions took all of it.
const (
	bufferSize = 64 << 10
	bulkBuffer = 256 << 10
)

// interest is what to wait for; poll(2) ignores a negative descriptor.
func (p *pump) interest() unix.PollFd {
	switch {
	case p.broken:
	case len(p.pending) > 0:
		return unix.PollFd{Fd: int32(p.to.fd), Events: unix.POLLOUT}
	case !p.ended && !p.held:
		return unix.PollFd{Fd: int32(p.from.fd), Events: unix.POLLIN}
	}
	return unix.PollFd{Fd: -1}
}

// move copies once after poll has said that something is ready, and reports whether anything was read.
func (p *pump) move(ready int16) (read bool) {
	if ready == 0 || p.broken {
		return false
	}
	if len(p.pending) == 0 && !p.ended && !p.held {
		read = p.fill()
		// A write that could block waits until poll says that there is room.
		if p.to.most > 0 && len(p.pending) > 0 {
			return read
		}
	}
	p.drain()
	return read
}

// fill reads what is there and passes it through tap. What tap itself adds with put comes first.
func (p *pump) fill() bool {
	if p.buf == nil {
		p.buf = make([]byte, bufferSize)
	}
	b := p.buf
	n, end := p.from.Read(b)
	if p.large && n >= bufferSize {
		p.grow()
	}
	p.ended, p.large = end, n >= bufferSize/2
	if n == 0 {
		return false
	}
	p.put(p.tap(b[:n]))
	return true
}

// drain writes what can be written now.
func (p *pump) drain() {
	if len(p.pending) == 0 || p.broken {
		return
	}
	var n int
	n, p.broken = p.to.Write(p.pending)
	p.sent += int64(n)
	p.pending = p.pending[n:]
	if p.broken || len(p.pending) == 0 {
		p.pending = nil // It may be a part of something large.
	}
}

// done reports whether nothing will be written any more.
func (p *pump) done() bool { return p.broken || p.ended && len(p.pending) == 0 }

// put adds to what is still to be written. The text must not change before it is. Thousands of answers may come one by one, so
// what waits is copied once and not for each. It has twenty callers: inlined in them it takes eight kilobytes.
//
//go:noinline
func (p *pump) put(text []byte) {
	switch {
	case p.broken || len(text) == 0:
	case len(p.pending) == 0:
		p.pending, p.own = text, false
	case p.own:
		p.pending = append(p.pending, text...)
	default:
		p.pending, p.own = append(p.pending[:len(p.pending):len(p.pending)], text...), true
	}
}

// again copies once more where that needs no poll, and reports whether it did. Only a busy stream is worth the
// question.
func (p *pump) again() bool {
	return p.large && len(p.pending) == 0 && !p.ended && !p.held && readable(p.from.fd) > 0 && p.move(unix.POLLIN)
}

// grow gets the buffer and the pipes that a busy stream needs.
func (p *pump) grow() {
	if p.grown {
		return
	}
	p.grown = true
	p.buf = make([]byte, bulkBuffer)
	p.from.grow(bulkBuffer)
	p.to.grow(bulkBuffer)
}

// shrink gives back what grow got. Bytes that are still to be written stay.
func (p *pump) shrink() {
	p.buf, p.grown, p.large = nil, false, false
	p.from.shrink()
	p.to.shrink()
}

// free releases the pump's buffers and drops the bytes that are still to be written.
func (p *pump) free() {
	p.shrink()
	p.pending = nil
}
