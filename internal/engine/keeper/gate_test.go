package keeper

import (
	"context"
	"testing"
)

// leaving is a context that is done when it is first looked at. By then the last request has left.
type leaving struct {
	context.Context
	gate *gate
}

func (l leaving) Done() <-chan struct{} {
	l.gate.leave()
	return l.Context.Done()
}

// A gate that the last request leaves when the time is over is empty.
func TestGateEmptyInTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // of two channels that are ready, select takes any
		var g gate
		g.enter()
		if g.shut(ctx) {
			t.Fatal("a gate with a request inside is said to be empty")
		}
		if !g.shut(leaving{ctx, &g}) {
			t.Fatal("an empty gate is said to have a request inside")
		}
	}
}
