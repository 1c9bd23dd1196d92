package proxy

import (
	"bufio"
	"net"

	"mcp-tether/engine"
	"mcp-tether/http1"
)

// stream copies one direction of a stream until it ends, and then ends that direction at the other side. The other
// direction stays open: a container goes on printing after its standard input has ended.
func (l *link) stream(to, from net.Conn, buffered *bufio.Reader) error {
	if err := http1.Stream().Copy(to, buffered, l.bulk(to, from)); err != nil {
		return err
	}
	return engine.CloseWrite(to)
}

// bulk returns what moves many bytes from one connection to the other.
func (l *link) bulk(to, from net.Conn) func(limit int64) (int64, error) {
	return func(limit int64) (int64, error) { return l.p.pipes.move(to, from, limit, &l.p.budget) }
}
