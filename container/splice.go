package container

import (
	"bufio"
	"errors"
	"net"
)

// splice copies one way of a stream until it ends, and then says so to the other side, whose own way stays open: a
// container goes on printing after its standard input has ended.
func splice(to net.Conn, from *bufio.Reader) error {
	stream := body{untilEOF: true}
	err := stream.pass(to, from)
	if err != nil {
		return err
	}
	return halfClose(to)
}

// halfClose ends the way to the other side only. A connection that cannot do so is closed.
func halfClose(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.Join(c.Close(), errors.ErrUnsupported)
}
