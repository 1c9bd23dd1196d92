package keeper

import (
	"context"
	"sync"
)

// gate admits requests until it is shut, and counts those inside. The zero value is open.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside int
	empty  chan struct{} // closed when the last one leaves; nil while shut does not wait
}

// enter reports whether a request is admitted. If so, leave must be called later.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// shut admits no more requests, and returns when none is inside or ctx is done. It reports whether none is.
func (g *gate) shut(ctx context.Context) bool {
	g.mu.Lock()
	g.closed = true
	if g.inside > 0 && g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	if empty == nil {
		return true
	}
	select {
	case <-empty:
		return true
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.inside == 0 // the last one may have left at the same time
	}
}
