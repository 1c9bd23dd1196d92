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
	head, r, to, refused := readRequest(br)
	switch {
	case refused != nil:
		refused.send(client, r)
	case len(head) == 0: // the client has hung up
	case to.creates != "":
		p.create(client, br, head, r, to)
	default:
		p.relay(client, br, head, r)
	}
}

// readRequest reads a head. It is empty, without a refusal, if the client has hung up.
func readRequest(br *bufio.Reader) (head []byte, r engine.Request, to route, refused *refusal) {
	head, err := engine.ReadHead(br)
	if errors.Is(err, engine.ErrHeadTooLong) {
		return nil, r, to, &refusal{headTooLarge, err}
	}
	if err != nil {
		return nil, r, to, nil
	}
	if r, err = engine.ParseRequest(head); err == nil {
		to, err = routeOf(r)
	}
	if err != nil {
		refused = &refusal{badRequest, err}
	}
	return head, r, to, refused
}

// dialTimeout bounds a connection to the engine: one that hangs must not block a client for ever.
const dialTimeout = 5 * time.Second

// connect connects to the engine, or tells the client why it cannot.
func (p *proxy) connect(client net.Conn, r engine.Request) (net.Conn, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	at, err := p.Dial(ctx)
	if err != nil {
		err = fmt.Errorf("cannot reach the container engine: %w", err)
		p.Warn(err)
		refusal{badGateway, err}.send(client, r)
		return nil, false
	}
	return at, p.track(at)
}

// relay passes on a request and its response, or a stream in both directions, unread.
func (p *proxy) relay(client net.Conn, br *bufio.Reader, head []byte, r engine.Request) {
	at, ok := p.connect(client, r)
	if !ok {
		return
	}
	defer p.end(at)
	var drop []string
	if !r.Upgrade {
		drop = []string{"Connection", "Upgrade"}
	}
	// What has come already goes along, so that the engine wakes up once.
	early, _ := br.Peek(br.Buffered())
	_, err := at.Write(append(engine.Edit(head, drop, closes), early...))
	var up sync.WaitGroup
	up.Go(func() {
		if err == nil {
			err = transfer(at, client)
			_ = engine.CloseWrite(at) // also after an error: an engine that is silent would not notice a killed client
		}
		if err != nil {
			// It reads no more, and may say why. A client that still sends must not be held up.
			_ = transfer(io.Discard, client)
		}
	})
	if err := transfer(client, at); err == nil {
		_ = engine.CloseWrite(client) // its own direction may go on
	} else {
		_ = at.Close()
		_ = client.Close()
	}
	up.Wait()
}

// pieceSize is the most that is copied at once. The engines and their clients copy in pieces of half that size.
const pieceSize = 64 << 10

// transfer copies until its source ends, which is no error however it does: a reset is a client that was killed.
func transfer(to io.Writer, from io.Reader) error {
	piece := make([]byte, pieceSize)
	for {
		n, end := from.Read(piece)
		if n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				return err
			}
		}
		if end != nil {
			return nil
		}
	}
}
