package keeper

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"mcp-tether/internal/engine"
)

// proxy stands between the clients of one session and their engine. All exported fields must be set before Serve and not
// be changed afterwards. The functions are called concurrently.
type proxy struct {
	// Dial connects to the engine, once for each request.
	Dial func(ctx context.Context) (net.Conn, error)
	// Labels returns the labels for one create.
	Labels func() map[string]string
	// Made is called with the id of what the session has created, before the client learns it; with "" if that is not known.
	Made func(id string)
	// At is where the engine is.
	At engine.Endpoint
	// Socket is the path of the session's socket.
	Socket string
	// Warn is called with errors that cost the session something, or that are odd.
	Warn func(error)

	gate gate

	mu     sync.Mutex             // for the fields below
	open   map[io.Closer]struct{} // the listener and all connections
	closed bool
}

// acceptPause is how long to wait after a client could not be accepted.
const acceptPause = 100 * time.Millisecond

// Serve accepts clients until Close.
func (p *proxy) Serve(l net.Listener) {
	for listens := p.track(l); listens; {
		client, err := l.Accept()
		switch {
		case err == nil:
			go p.serve(client)
		case p.isClosed():
			return
		default:
			// Mostly there are no files or no memory left. That passes, but a session that has lost its engine would stay
			// without one.
			p.Warn(fmt.Errorf("a client of the engine cannot be accepted: %w", err))
			time.Sleep(acceptPause)
		}
	}
}

// Shut refuses further creates: the client gets the error that the session is ending. It returns true when all earlier ones
// have an outcome, or false when ctx is done before. All other requests still pass, for a server that cleans up by itself.
func (p *proxy) Shut(ctx context.Context) bool { return p.gate.shut(ctx) }

// Close closes the listener and all connections. Creates that the engine has not answered stay without an outcome.
func (p *proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
}

func (p *proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// track has Close close c as well. It closes it at once, and reports false, if Close was called before.
func (p *proxy) track(c io.Closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	if p.open == nil {
		p.open = map[io.Closer]struct{}{}
	}
	p.open[c] = struct{}{}
	return true
}

// end closes a connection.
func (p *proxy) end(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	_ = c.Close()
}
