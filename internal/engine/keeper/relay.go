package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"mcp-tether/internal/engine"
)

// closes is added to the head of what is passed on. A server reads no further request after it (RFC 9112, section 9.6), so
// nothing can follow that would have to be looked at. Where a stream may begin it is a second line of that name: podman
// compares the first one with "Upgrade". Elsewhere it is the only one: for net/http, "keep-alive" of HTTP/1.0 comes first.
const closes = "Connection: close"

// serve serves the one request of a connection.
func (p *proxy) serve(client net.Conn) {
	if !p.track(client) {
		return
	}
	defer p.end(client)
	br := bufio.NewReader(client)
	head, err := engine.ReadHead(br)
	switch {
	case errors.Is(err, engine.ErrHeadTooLong):
		refusal{headTooLarge, err}.send(client, engine.Request{})
		return
	case err != nil:
		return // the client has hung up
	}
	r, err := engine.ParseRequest(head)
	to := routeOf(r)
	switch {
	case err != nil:
		refusal{badRequest, err}.send(client, r)
	case to.creates != "":
		p.create(client, br, head, r, to)
	default:
		p.relay(client, br, head, r)
	}
}

// dialTimeout bounds a connection to the engine: one that hangs must not block a client for ever.
const dialTimeout = 5 * time.Second

// connect connects to the engine, or tells the client why it cannot.
func (p *proxy) connect(client net.Conn, r engine.Request) (net.Conn, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	upstream, err := p.Dial(ctx)
	if err != nil {
		err = fmt.Errorf("cannot reach the container engine: %w", err)
		p.Warn(err)
		refusal{badGateway, err}.send(client, r)
		return nil, false
	}
	return upstream, p.track(upstream)
}

// relay passes on a request and its response, or a stream in both directions, unread.
func (p *proxy) relay(client net.Conn, br *bufio.Reader, head []byte, r engine.Request) {
	upstream, ok := p.connect(client, r)
	if !ok {
		return
	}
	defer p.end(upstream)
	var drop []string
	if !r.Upgrade {
		drop = []string{"Connection", "Upgrade"}
	}
	// What has come already goes along, so that the engine wakes up once.
	early, _ := br.Peek(br.Buffered())
	_, err := upstream.Write(append(engine.Edit(head, drop, closes), early...))
	var up sync.WaitGroup
	up.Go(func() {
		if err == nil {
			err = transfer(upstream, client)
			_ = engine.CloseWrite(upstream) // also after an error: an engine that is silent would not notice a killed client
		}
		if err != nil {
			// It reads no more, and may say why. A client that still sends must not be held up.
			_ = transfer(io.Discard, client)
		}
	})
	if err := transfer(client, upstream); err == nil {
		_ = engine.CloseWrite(client) // its own direction may go on
	} else {
		_ = upstream.Close()
		_ = client.Close()
	}
	up.Wait()
}

// pieceSize is the most that is copied at once. The engines and their clients copy in pieces of half that size.
const pieceSize = 64 << 10

// transfer copies until its source ends, which is no error however it does: a reset is a client that was killed.
func transfer(to io.Writer, from io.Reader) error {
	piece := make([]byte, pieceSize)
	for end := error(nil); end == nil; {
		var n int
		n, end = from.Read(piece)
		if n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}
