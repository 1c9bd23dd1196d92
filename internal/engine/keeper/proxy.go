package keeper

import (
	"context"
	"errors"
	"fmt"
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

	gate    gate
	serving sync.WaitGroup
	pieces  sync.Pool // of memory to copy with

	mu       sync.Mutex            // for the fields below
	open     map[net.Conn]struct{} // connections
	listener net.Listener
	closed   bool
}

// Serve accepts clients until Close, which ends it without an error. It returns when all of its connections have ended.
func (p *proxy) Serve(l net.Listener) error {
	if !p.listen(l) {
		return l.Close()
	}
	defer p.serving.Wait()
	for pause := time.Duration(0); ; {
		client, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			p.serving.Go(func() { p.serve(client) })
		case p.isClosed():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listen for clients of the engine: %w", err)
		default:
			// Mostly there are no files or no memory left. That passes, but a session that has lost its engine would stay
			// without one.
			p.Warn(fmt.Errorf("a client of the engine cannot be accepted: %w", err))
			pause = min(2*pause+acceptPause, maxAcceptPause)
			time.Sleep(pause)
		}
	}
}

// The pauses after a client could not be accepted.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Shut refuses further creates: the client gets the error that the session is ending. It returns true when all earlier ones
// have an outcome, or false when ctx is done before. All other requests still pass, for a server that cleans up by itself.
func (p *proxy) Shut(ctx context.Context) bool { return p.gate.shut(ctx) }

// Close closes the listener and all connections. Creates that the engine has not answered stay without an outcome.
func (p *proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for c := range p.open {
		_ = c.Close()
	}
}

// listen takes the listener over. It reports false if Close was called before.
func (p *proxy) listen(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.open = l, map[net.Conn]struct{}{}
	return !p.closed
}

func (p *proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// track has Close close a connection as well. It closes it at once, and reports false, if Close was called before.
func (p *proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
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
