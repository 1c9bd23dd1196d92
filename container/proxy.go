package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy stands between the clients of one session and their engine. All of its fields must be set before Serve, and none
// changed after it. The functions are called from several goroutines at once.
type Proxy struct {
	// Dial connects to the engine: for every client connection at its first request, and for questions of the proxy's own.
	// It has to bound itself in time.
	Dial func() (net.Conn, error)
	// Labels gives the labels of one create, with a LabelRequest that no other has.
	Labels func() map[string]string
	// Note is told what the session does. What it is told of goes on when it returns: the engine is asked after OpCreate and
	// OpStart, and the client has its reply after all others.
	Note func(Note)
	// Attached has only those containers labelled and noted that a client stays with: created with standard streams
	// attached or, if they were there before, attached to before they were started.
	Attached bool
	// Warn is told what was lost or is odd.
	Warn func(error)

	gate  gate
	own   own
	mu    sync.Mutex // for what follows
	links map[*link]struct{}
	from  net.Listener
	done  bool
	wait  sync.WaitGroup
}

// Serve takes clients in until Close, which ends it without an error. It returns when all of its connections have ended.
func (p *Proxy) Serve(l net.Listener) error {
	if !p.listen(l) {
		return l.Close()
	}
	defer p.wait.Wait()
	for pause := time.Duration(0); ; {
		client, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			p.take(client)
		case p.isDone():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listen for clients of the engine: %w", err)
		default:
			// Out of files or memory, mostly. It passes, and a session without its engine would not.
			p.Warn(fmt.Errorf("a client of the engine cannot be heard: %w", err))
			pause = min(2*pause+acceptPause, maxAcceptPause)
			time.Sleep(pause)
		}
	}
}

// How long to wait when a client could not be accepted.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Shut ends the session's creating: from now on a client that asks for a new object, or for the start of a container that
// is not the session's, is told that the session is ending. It returns when the outcome of all that the engine was asked
// before is noted, or ctx is done. Everything else still passes, for a server that cleans up by itself.
func (p *Proxy) Shut(ctx context.Context) { p.gate.shut(ctx) }

// Close ends the listener and all connections. What the engine was asked before, and has not answered, stays open.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.from != nil {
		_ = p.from.Close()
	}
	for l := range p.links {
		l.shut()
	}
}

// listen reports false if Close came first.
func (p *Proxy) listen(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from, p.links = l, map[*link]struct{}{}
	return !p.done
}

func (p *Proxy) isDone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// take serves a client in a goroutine of its own.
func (p *Proxy) take(client net.Conn) {
	l := newLink(p, client)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		_ = client.Close()
		return
	}
	p.links[l] = struct{}{}
	p.wait.Go(func() {
		l.requests()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}
