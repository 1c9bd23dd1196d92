package proxy

import (
	"bufio"
	"net"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/http1"
)

// stream copies one direction of a stream until it ends, and then ends that direction at the other side. The other
// direction stays open: a container goes on printing after its standard input has ended.
func (l *link) stream(to, from net.Conn, buffered *bufio.Reader) error {
	if err := l.copy(http1.Stream(), to, from, buffered); err != nil {
		return err
	}
	return engine.CloseWrite(to)
}

// wideSize is the most that one read takes of a chunked body that comes faster than it is passed on, in bytes.
const wideSize = 128 << 10

// copy copies a body. If much of it comes at once, bytes that need no look are moved in the kernel. Chunks need a look,
// so each read takes more of them, as long as the body lasts.
func (l *link) copy(body *http1.Body, to, from net.Conn, buffered *bufio.Reader) error {
	var narrow *bufio.Reader
	err := body.Copy(to, buffered, func(limit int64) (int64, error) {
		if limit > 0 {
			return l.p.pipes.move(to, from, limit, &l.p.budget)
		}
		if narrow == nil && buffered.Size() < wideSize && l.p.budget.takeBulk(wideSize) {
			was := *buffered
			narrow, *buffered = &was, *bufio.NewReaderSize(&was, wideSize)
		}
		return 0, nil
	})
	switch {
	case narrow == nil:
	case buffered.Buffered() == 0:
		*buffered = *narrow
		l.p.budget.giveBulk(wideSize)
	default:
		l.wide.Add(wideSize) // more has come behind the body: the buffer stays
	}
	return err
}
