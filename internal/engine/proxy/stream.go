package proxy

import (
	"bufio"
	"net"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/http1"
)

// stream copies one direction of a stream until it ends, and then ends that direction at the other side. The other
// direction stays open: a container goes on printing after its standard input has ended.
func stream(to net.Conn, from *bufio.Reader) error {
	if err := http1.Stream().Copy(to, from); err != nil {
		return err
	}
	return engine.CloseWrite(to)
}
