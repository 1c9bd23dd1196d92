package keeper

import (
	"context"
	"sync"
)

// gate admits requests until it is shut, and counts those inside. The zero value is open.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

// enter reports whether a request is admitted. If so, leave must be called later.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside.Add(1)
	}
	return !g.closed
}

func (g *gate) leave() { g.inside.Done() }

// shut admits no more requests, and waits until none is inside or ctx is done. It reports whether none was seen to be.
func (g *gate) shut(ctx context.Context) bool {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	empty := make(chan struct{})
	go func() {
		g.inside.Wait()
		close(empty)
	}()
	select {
	case <-empty:
		return true
	case <-ctx.Done():
		return false
	}
}
