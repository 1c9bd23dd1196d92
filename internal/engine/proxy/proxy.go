package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"mcp-tether/internal/engine"
)

// Proxy stands between the clients of one session and their engine. All exported fields must be set before Serve and not
// be changed afterwards. The functions are called concurrently.
type Proxy struct {
	// Dial connects to the engine: for each client connection at its first request, and for the proxy's own inspections.
	// It must bound itself in time.
	Dial func() (net.Conn, error)
	// Labels returns the labels for one create, with a LabelRequest that no other create has.
	Labels func() map[string]string
	// Note is called with what the session does. The proxy goes on when it returns: after OpCreate it asks the engine,
	// after all others it sends the response to the client.
	Note func(engine.Note)
	// At is where the engine is.
	At engine.Endpoint
	// Socket is the path of the session's socket.
	Socket string
	// Attached restricts labels and notes to containers that are created for a client that attaches to them.
	Attached bool
	// Warn is called with errors that cost the session something, or that are odd.
	Warn func(error)

	gate    gate
	objects objects
	budget  budget
	// rewriting is held while a create is labelled: a short text may decode to much memory, so only one is decoded at a
	// time.
	rewriting sync.Mutex
	serving   sync.WaitGroup

	mu       sync.Mutex // for the fields below
	links    map[*link]struct{}
	listener net.Listener
	closed   bool
}

// Serve accepts clients until Close, which ends it without an error. It returns when all of its connections have ended.
func (p *Proxy) Serve(l net.Listener) error {
	if !p.listen(l) {
		return l.Close()
	}
	defer p.serving.Wait()
	for pause := time.Duration(0); ; {
		client, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			p.serve(client)
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

// Shut refuses further creates: the client gets the error that the session is ending. It returns true when the outcomes of all earlier ones are noted, or false when ctx is done before.
// All other requests still pass, for a server that cleans up by itself.
func (p *Proxy) Shut(ctx context.Context) bool { return p.gate.shut(ctx) }

// Forget takes an object that no longer exists off the list of those that the session created.
func (p *Proxy) Forget(kind engine.Kind, id string) { p.objects.remove(kind, id) }

// Close closes the listener and all connections. Requests that the engine has not responded to stay without an outcome.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for l := range p.links {
		l.close()
	}
}

// listen takes the listener over. It reports false if Close was called before.
func (p *Proxy) listen(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.links = l, map[*link]struct{}{}
	return !p.closed
}

func (p *Proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// serve serves a client in a goroutine of its own.
func (p *Proxy) serve(client net.Conn) {
	l := newLink(p, client)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = client.Close()
		return
	}
	p.links[l] = struct{}{}
	p.serving.Go(func() {
		l.requests()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}
