package keeper

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
)

// Removal is the result of removing a session's containers.
type Removal struct {
	// Count is how many were ended.
	Count int
	// Err says what may be left.
	Err   error
	ended map[string]engine.Result
}

// Grace is the time that a container has from its stop signal to its removal by force.
const Grace = 400 * time.Millisecond

// LongestRemoval is the longest time that the removal of a session's containers may take, if the engine may take limit.
func LongestRemoval(limit time.Duration) time.Duration { return limit/2 + Grace + limit }

// Shut begins to remove what the session made, while its processes end. No client can connect any more: what it made would
// not be looked for.
func (k *Keeper) Shut() {
	if k.listener >= 0 {
		_ = unix.Close(k.listener)
		k.listener = -1
	}
	if k.outcome != nil {
		return
	}
	k.outcome = make(chan Removal, 1)
	if !k.used {
		k.outcome <- Removal{}
		return
	}
	go func() { k.outcome <- k.remove() }()
}

// errUnanswered says that what the engine is still working on may become a container.
var errUnanswered = errors.New("the engine has not answered a create")

// remove ends what the session made. The outcomes of all creates are waited for first, and again after the removal. One that
// the engine never answers must not keep the others alive.
func (k *Keeper) remove() Removal {
	ctx, cancel := context.WithTimeout(context.Background(), LongestRemoval(k.o.Limit))
	defer cancel()
	r := Removal{ended: map[string]engine.Result{}}
	settled := k.settle(ctx, k.o.Limit/2)
	if ids := k.made.known(); settled && ids != nil && len(ids) == 0 {
		return r
	}
	k.removeOnce(ctx, &r)
	if settled {
		return r
	}
	if !k.settle(ctx, LongestRemoval(k.o.Limit)) {
		r.Err = errors.Join(r.Err, errUnanswered)
		return r
	}
	k.removeOnce(ctx, &r)
	return r
}

// settle refuses creates from now on, and reports whether all earlier ones have an outcome.
func (k *Keeper) settle(ctx context.Context, limit time.Duration) bool {
	if k.proxy == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return k.proxy.Shut(ctx)
}

func (k *Keeper) removeOnce(ctx context.Context, r *Removal) {
	var all []engine.Result
	owner := engine.Owner{Session: k.o.Session, Made: k.made.known()}
	all, r.Err = engine.Remove(ctx, engine.Client{Dial: k.endpoint.Dial}, owner, Grace)
	for _, x := range all {
		r.ended[x.ID] = x
	}
}

// Close waits for the removal, which is bounded, logs what it has ended, and releases all that the keeper holds. If processes
// are kept, the socket's name leads to the engine from then on.
func (k *Keeper) Close(kept bool) Removal {
	k.Shut()
	r := <-k.outcome
	r.Count = len(r.ended)
	var err error
	if kept && k.endpoint.Socket != "" {
		err = session.LeaveLink(k.socket, k.o.Session, k.endpoint.Socket)
	} else {
		err = session.RemoveSocket(k.socket, k.o.Session)
	}
	if k.proxy != nil {
		k.proxy.Close()
	}
	k.made.close()
	r.Err = errors.Join(r.Err, err)
	for _, x := range r.ended {
		k.o.Log.Debug().Str("kind", string(x.Kind)).Str("id", x.ID).Str("container", x.Name).Str("why", x.Why).Bool("done", x.Err == nil).
			AnErr("error", x.Err).Msg("container ended")
	}
	return r
}
