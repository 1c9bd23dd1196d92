package proxy

import (
	"bufio"
	"net"

	"mcp-tether/engine"
	"mcp-tether/http1"
)

// splice copies one direction of a stream until it ends, and then ends that direction at the other side. The other
// direction stays open: a container goes on printing after its standard input has ended.
func splice(to net.Conn, from *bufio.Reader) error {
	if err := http1.Stream().Copy(to, from); err != nil {
		return err
	}
	return engine.CloseWrite(to)
}
