package container

import (
	"context"
	"sync"
)

// gate lets requests in until it is shut, and knows how many are in. The zero value is open.
type gate struct {
	mu     sync.Mutex
	closed bool
	in     int
	empty  chan struct{} // closed when the last one leaves; nil while nobody waits
}

// enter reports whether a request may go on. If so, leave must follow.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.in++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in--; g.in == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// shut lets nobody in any more, and returns when nobody is in, or ctx is done.
func (g *gate) shut(ctx context.Context) {
	g.mu.Lock()
	g.closed = true
	if g.in > 0 && g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	if empty == nil {
		return
	}
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
