package relay

import (
	"bytes"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Peer is one side of a conversation. It says lines, and lines wait for it until it reads. Nothing of it blocks.
type Peer struct {
	// In is what the peer says, Out what it reads.
	In, Out Stream
	// Ended says that In has reached its end, Broken that Out takes no more.
	Ended, Broken bool
	// inbox is what was read and not taken yet, from next on. The first scanned bytes of that have no end of line.
	inbox         []byte
	next, scanned int
	// outbox is what is to be written, from written on.
	outbox  []byte
	written int
}

const (
	// oneRead is how many bytes are read at once at least, and how many may wait for one side before the other is not read from
	// any more: the default capacity of a pipe (pipe(7)).
	oneRead = 64 << 10
	// kept is how much memory an empty buffer keeps for good, in bytes.
	kept = 256 << 10
	// direct is the length from which a line is written without a copy of it.
	direct = 16 << 10
)

// Connect makes pipes to a new process and gives it its ends of them. The caller calls closeTheirs once it has started the
// process, or failed to. What the peer has said before is forgotten.
func (p *Peer) Connect(c *proc.Child) (closeTheirs func(), err error) {
	in, theirOut, err := Pipe(true)
	if err != nil {
		return nil, err
	}
	out, theirIn, err := Pipe(false)
	if err != nil {
		in.Close()
		_ = unix.Close(theirOut)
		return nil, err
	}
	p.In.Close()
	p.Out.Close()
	*p = Peer{In: in, Out: out}
	c.Stdin, c.Stdout = theirIn, theirOut
	return func() { _ = unix.Close(theirIn); _ = unix.Close(theirOut) }, nil
}

// Close closes both streams, and drops what waits.
func (p *Peer) Close() {
	p.In.Close()
	p.Out.Close()
	*p = Peer{In: closedStream(), Out: closedStream(), Ended: true}
}

// PollIn is what to wait for before Read; poll(2) ignores a negative descriptor.
func (p *Peer) PollIn(now bool) unix.PollFd {
	if p.Ended || !now {
		return unix.PollFd{Fd: -1}
	}
	return unix.PollFd{Fd: int32(p.In.fd), Events: unix.POLLIN}
}

// PollOut is what to wait for before Flush.
func (p *Peer) PollOut() unix.PollFd {
	if p.Broken || p.Waiting() == 0 {
		return unix.PollFd{Fd: -1}
	}
	return unix.PollFd{Fd: int32(p.Out.fd), Events: unix.POLLOUT}
}

// Read reads once, and returns how many bytes there were. The lines of before are not valid any more.
func (p *Peer) Read() int {
	rest := p.inbox[p.next:]
	switch {
	case cap(p.inbox) < oneRead:
		p.inbox = append(make([]byte, 0, oneRead), rest...)
	case len(rest) > cap(p.inbox)/2:
		p.inbox = append(make([]byte, 0, 2*cap(p.inbox)), rest...)
	case p.next > 0:
		p.inbox = p.inbox[:copy(p.inbox, rest)]
	}
	p.next = 0
	have := len(p.inbox)
	n, end := p.In.Read(p.inbox[have:min(cap(p.inbox), have+kept)])
	p.inbox, p.Ended = p.inbox[:have+n], end
	return n
}

// Drain calls read for what is in the stream now, and for no more: a process that outlives the peer may write for ever.
func (p *Peer) Drain(read func() int) {
	for left := p.Queued(); left > 0; {
		n := read()
		if left -= n; n == 0 {
			return
		}
	}
}

// Line gives the next whole line with its newline, nil if there is none. It is valid until the next Read.
func (p *Peer) Line() []byte {
	rest := p.inbox[p.next:]
	i := bytes.IndexByte(rest[p.scanned:], '\n')
	if i < 0 {
		p.scanned = len(rest)
		return nil
	}
	end := p.scanned + i + 1
	p.next, p.scanned = p.next+end, 0
	return rest[:end:end]
}

// Unfinished is what was read of a line that has not ended.
func (p *Peer) Unfinished() int { return len(p.inbox) - p.next }

// TakeRest gives what was read of such a line, and forgets it. It is valid until the next Read.
func (p *Peer) TakeRest() []byte {
	rest := p.inbox[p.next:]
	p.inbox, p.next, p.scanned = p.inbox[:0], 0, 0
	return rest
}

// Queued is how many bytes can be read now.
func (p *Peer) Queued() int {
	if p.Ended {
		return 0
	}
	return readable(p.In.fd)
}

// Waiting is how many bytes are to be written.
func (p *Peer) Waiting() int { return len(p.outbox) - p.written }

// Full reports whether so much is to be written that no more should be added.
func (p *Peer) Full() bool { return p.Waiting() >= oneRead }

// Put has a text written. The caller may change it afterwards. It has many callers: inlined in them it takes kilobytes.
//
//go:noinline
func (p *Peer) Put(text []byte) {
	if p.Broken || p.Out.fd < 0 || len(text) == 0 {
		return
	}
	if p.Waiting() == 0 && len(text) >= direct {
		var n int
		n, p.Broken = p.Out.Write(text)
		text = text[n:]
	}
	p.outbox = append(p.outbox, text...)
}

// TakeOutbox gives what is to be written, and forgets it.
func (p *Peer) TakeOutbox() []byte {
	waits := p.outbox[p.written:]
	p.outbox, p.written = nil, 0
	return waits
}

// Flush writes what can be written now, and reports whether that was anything.
func (p *Peer) Flush() (moved bool) {
	for p.Waiting() > 0 && !p.Broken && p.Out.fd >= 0 {
		var n int
		n, p.Broken = p.Out.Write(p.outbox[p.written:])
		p.written += n
		moved = moved || n > 0
		if p.Waiting() > 0 { // What it takes is taken.
			break
		}
	}
	if p.Broken || p.Waiting() == 0 {
		p.outbox, p.written = p.outbox[:0], 0
	}
	return moved
}

// Large reports whether there are buffers that only long messages need.
func (p *Peer) Large() bool { return max(cap(p.inbox), cap(p.outbox)) > kept }

// Shrink gives those back that are empty.
func (p *Peer) Shrink() {
	if p.Unfinished() == 0 && cap(p.inbox) > kept {
		p.inbox, p.next, p.scanned = nil, 0, 0
	}
	if p.Waiting() == 0 && cap(p.outbox) > kept {
		p.outbox = nil
	}
}

func readable(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
